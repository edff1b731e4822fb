/*
 * What belongs to a runtime and is given back by a destructor: kernels, data, streams, blocks, pinned
 * memory, leases. Included by muster.hpp; a runtime makes them.
 */
#ifndef MUSTER_CPP_OWNERS_HPP
#define MUSTER_CPP_OWNERS_HPP

#include <chrono>
#include <memory>
#include <muster/cpp/args.hpp>
#include <muster/cpp/callback.hpp>

namespace muster
{

/* How long to wait. */
using nanoseconds = std::chrono::nanoseconds;
inline constexpr nanoseconds forever = nanoseconds::max();

using options = sized<muster_options>;
using run_options = sized<muster_run_options>;
using hints = sized<muster_hints>;
using report = sized<muster_report>;
using progress = sized<muster_progress>;
using job_device = sized<muster_job_device>;
using device_info = sized<struct muster_device_info>;
using device_load = sized<struct muster_device_load>;
using counters = sized<struct muster_counters>;

namespace detail
{
inline std::uint64_t as_ns(nanoseconds time) noexcept
{
    if (time == forever)
        return UINT64_MAX;
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

struct destroy {
    void operator()(muster_kernel *kernel) const noexcept
    {
        muster_kernel_destroy(kernel);
    }
    void operator()(muster_kept *kept) const noexcept
    {
        muster_result_release(kept);
    }
    void operator()(muster_pipeline *pipeline) const noexcept
    {
        muster_pipeline_destroy(pipeline);
    }
};

/* A handle of a runtime that `release` gives back. */
template <class H, void (*release)(muster_runtime *, H)> class owned
{
  public:
    owned() noexcept = default;
    owned(muster_runtime *m, H handle) noexcept : m_(m), handle_(handle)
    {
    }
    owned(owned &&from) noexcept : m_(std::exchange(from.m_, nullptr)), handle_(from.handle_)
    {
    }
    owned &operator=(owned &&from) noexcept
    {
        if (this != &from) {
            reset();
            m_ = std::exchange(from.m_, nullptr);
            handle_ = from.handle_;
        }
        return *this;
    }
    ~owned()
    {
        reset();
    }
    /* Gives it back now. */
    void reset() noexcept
    {
        if (muster_runtime *m = std::exchange(m_, nullptr))
            release(m, handle_);
    }
    explicit operator bool() const noexcept
    {
        return m_ != nullptr;
    }
    H get() const noexcept
    {
        return handle_;
    }
    operator H() const noexcept
    {
        return handle_;
    }

  protected:
    muster_runtime *m_ = nullptr;
    H handle_ = {};
};

inline void release_data(muster_runtime *m, muster_data data)
{
    muster_data_destroy(m, data, nullptr);
}
inline void release_lease(muster_runtime *m, muster_lease lease)
{
    muster_lease_release(m, lease, nullptr);
}
inline void release_stream(muster_runtime *m, muster_stream stream)
{
    muster_stream_release(m, stream, nullptr);
}
} // namespace detail

/* A kernel; its jobs and tasks must be over before it goes. */
class kernel
{
  public:
    kernel() noexcept = default;
    /* Takes it over. */
    explicit kernel(muster_kernel *from, detail::thrown_slot *thrown = nullptr) noexcept
        : c_(from), thrown_(thrown)
    {
    }
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }
    muster_kernel *get() const noexcept
    {
        return c_.get();
    }
    /* Where a kernel that is a lambda keeps its exception. */
    detail::thrown_slot *thrown() const noexcept
    {
        return thrown_;
    }

  private:
    std::unique_ptr<muster_kernel, detail::destroy> c_;
    detail::thrown_slot *thrown_ = nullptr;
};

/* The arguments of a kernel that is a lambda, in their order. */
class kernel_args
{
  public:
    explicit kernel_args(void *const *args) noexcept : args_(args)
    {
    }
    /* An array, or a block; points to the unit's first item. */
    template <class T> T *array(std::size_t index) const noexcept
    {
        return static_cast<T *>(*static_cast<void *const *>(args_[index]));
    }
    template <class T> T value(std::size_t index) const noexcept
    {
        static_assert(std::is_trivially_copyable_v<T>);
        T copy;
        std::memcpy(&copy, args_[index], sizeof copy);
        return copy;
    }

  private:
    void *const *args_;
};

namespace detail
{
/* A lambda without captures as a kernel's function: C gives it no pointer, so each type has its place. */
template <class F> struct kernel_function {
    static_assert(std::is_empty_v<F>,
                  "a kernel's lambda captures nothing: Muster gives its arguments alone");
    /* Never destroyed: threads of a runtime may outlive main's statics. */
    static const F *&place()
    {
        static const F *f = nullptr;
        return f;
    }
    static thrown_slot &thrown()
    {
        static thrown_slot *const slot = new thrown_slot;
        return *slot;
    }
    static void set(const F &f)
    {
        static const bool once = (place() = new F(f), true);
        (void)once;
    }
    static muster_status run(std::uint64_t begin, std::uint64_t end, void *const *args)
    {
        try {
            return call_for_status(*place(), begin, end, kernel_args(args));
        } catch (...) {
            return thrown().keep();
        }
    }
};
} // namespace detail

/* Host memory that may stay resident on devices. Its destructor waits for what reads it. */
class data : public detail::owned<muster_data, detail::release_data>
{
  public:
    using owned::owned;
    /* Before the host memory changes: drops the replicas. */
    result<void> try_invalidate()
    {
        return detail::call([&](auto *err) { return muster_data_invalidate(m_, handle_, err); });
    }
    void invalidate()
    {
        try_invalidate().value();
    }
};
inline arg all(const data &data) noexcept
{
    return all(data.get());
}

/* A device that was picked, and counts as used until this goes. */
class lease : public detail::owned<muster_lease, detail::release_lease>
{
  public:
    lease() noexcept = default;
    lease(muster_runtime *m, muster_lease handle, muster_device device) noexcept
        : owned(m, handle), device_(device)
    {
    }
    muster_device device() const noexcept
    {
        return device_;
    }

  private:
    muster_device device_ = {};
};

namespace detail
{
struct block_place {
    muster_block block;
    muster_stream stream;
};
inline void release_block(muster_runtime *m, block_place at)
{
    if (muster_block_free(m, at.stream, at.block, nullptr) == MUSTER_OK)
        return;
    /* Its stream was released before it: the device's own stream is always there. */
    sized<struct muster_block_info> info;
    muster_stream stream;
    if (muster_block_info(m, at.block, &info, nullptr) == MUSTER_OK &&
        muster_stream_default(m, info.device, &stream, nullptr) == MUSTER_OK)
        muster_block_free(m, stream, at.block, nullptr);
}
} // namespace detail

/* Memory of a device, freed in the order of the stream that it was allocated on. */
class block
{
  public:
    block() noexcept = default;
    block(muster_runtime *m, muster_block handle, muster_stream stream,
          std::uint64_t bytes) noexcept
        : c_(m, { handle, stream }), bytes_(bytes)
    {
    }
    muster_block get() const noexcept
    {
        return c_.get().block;
    }
    operator muster_block() const noexcept
    {
        return get();
    }
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(c_);
    }
    std::uint64_t bytes() const noexcept
    {
        return bytes_;
    }
    void reset() noexcept
    {
        c_.reset();
    }

  private:
    detail::owned<detail::block_place, detail::release_block> c_;
    std::uint64_t bytes_ = 0;
};

/* Arguments of a launch on a stream. */
inline struct muster_operand reads(muster_block block) noexcept
{
    return muster_operand_block(block, MUSTER_READS);
}
inline struct muster_operand writes(muster_block block) noexcept
{
    return muster_operand_block(block, MUSTER_WRITES);
}
inline struct muster_operand updates(muster_block block) noexcept
{
    return muster_operand_block(block, MUSTER_READS_WRITES);
}
/* A variable that lives until the launch was given. */
template <class T> struct muster_operand scalar(const T &variable) noexcept
{
    static_assert(std::is_trivially_copyable_v<T>);
    return muster_operand_value(&variable, sizeof variable);
}

/* An in-order queue of one device. Work already given is finished after it has gone. */
class stream : public detail::owned<muster_stream, detail::release_stream>
{
  public:
    using owned::owned;
    result<block> try_allocate(std::uint64_t bytes)
    {
        struct muster_error err;
        muster_block made;
        if (muster_block_allocate(m_, handle_, bytes, &made, &err) != MUSTER_OK)
            return err;
        return block(m_, made, handle_, bytes);
    }
    block allocate(std::uint64_t bytes)
    {
        return try_allocate(bytes).value();
    }
    /* Items stay as they are until wait() has returned. */
    template <class C>
    result<void> try_copy_in(muster_block to, const C &items, std::uint64_t offset = 0)
    {
        const std::uint64_t bytes = std::size(items) * sizeof *std::data(items);
        return detail::call([&](auto *err) {
            return muster_copy_in(m_, handle_, to, offset, std::data(items), bytes, err);
        });
    }
    template <class C> void copy_in(muster_block to, const C &items, std::uint64_t offset = 0)
    {
        try_copy_in(to, items, offset).value();
    }
    template <class C>
    result<void> try_copy_out(C &&items, muster_block from, std::uint64_t offset = 0)
    {
        static_assert(detail::is_writable<C>, "a copy to items that are const");
        const std::uint64_t bytes = std::size(items) * sizeof *std::data(items);
        return detail::call([&](auto *err) {
            return muster_copy_out(m_, handle_, std::data(items), from, offset, bytes, err);
        });
    }
    template <class C> void copy_out(C &&items, muster_block from, std::uint64_t offset = 0)
    {
        try_copy_out(items, from, offset).value();
    }
    result<void> try_launch(const kernel &what, std::uint64_t items,
                            std::initializer_list<struct muster_operand> operands,
                            std::uint64_t begin = 0)
    {
        return detail::call([&](auto *err) {
            return muster_launch(m_, handle_, what.get(), begin, items, operands.begin(),
                                 operands.size(), nullptr, err);
        });
    }
    void launch(const kernel &what, std::uint64_t items,
                std::initializer_list<struct muster_operand> operands, std::uint64_t begin = 0)
    {
        try_launch(what, items, operands, begin).value();
    }
    result<void> try_wait(nanoseconds timeout = forever)
    {
        return detail::call([&](auto *err) {
            return muster_stream_wait(m_, handle_, detail::as_ns(timeout), err);
        });
    }
    void wait(nanoseconds timeout = forever)
    {
        try_wait(timeout).value();
    }
};

/* Pinned host memory for items of type T, which are zero at first. */
template <class T> class pinned
{
    static_assert(std::is_trivially_copyable_v<T>,
                  "pinned memory holds what can be copied by bytes");

  public:
    pinned() noexcept = default;
    pinned(muster_runtime *m, T *items, std::size_t size) noexcept : m_(m), items_(items, size)
    {
    }
    pinned(pinned &&from) noexcept
        : m_(std::exchange(from.m_, nullptr)), items_(std::exchange(from.items_, {}))
    {
    }
    pinned &operator=(pinned &&from) noexcept
    {
        std::swap(m_, from.m_);
        std::swap(items_, from.items_);
        return *this;
    }
    ~pinned()
    {
        if (m_)
            muster_host_free(m_, items_.data(), nullptr);
    }
    T *data() const noexcept
    {
        return items_.data();
    }
    std::size_t size() const noexcept
    {
        return items_.size();
    }
    T *begin() const noexcept
    {
        return items_.begin();
    }
    T *end() const noexcept
    {
        return items_.end();
    }
    T &operator[](std::size_t index) const noexcept
    {
        return items_[index];
    }

  private:
    muster_runtime *m_ = nullptr;
    span<T> items_;
};

} // namespace muster

#endif
