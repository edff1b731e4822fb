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
    void operator()(muster_graph *graph) const noexcept
    {
        muster_graph_destroy(graph);
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

/* Rows of equal length at equal distances, borrowed: a tile, or with one row a range. */
template <class T> class tile_span
{
  public:
    tile_span() noexcept = default;
    tile_span(T *data, std::size_t rows, std::size_t columns, std::size_t pitch_bytes) noexcept
        : data_(data), rows_(rows), columns_(columns), pitch_(pitch_bytes)
    {
    }
    T *data() const noexcept
    {
        return data_;
    }
    std::size_t rows() const noexcept
    {
        return rows_;
    }
    std::size_t columns() const noexcept
    {
        return columns_;
    }
    /* Bytes from one row to the next. */
    std::size_t pitch() const noexcept
    {
        return pitch_;
    }
    span<T> operator[](std::size_t row) const noexcept
    {
        using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
        void *const at = const_cast<char *>(reinterpret_cast<byte *>(data_) + row * pitch_);
        return { static_cast<T *>(at), columns_ };
    }

  private:
    T *data_ = nullptr;
    std::size_t rows_ = 0, columns_ = 0, pitch_ = 0;
};

namespace detail
{
/* What the bytes of data look like where the caller's memory is. */
struct data_shape {
    std::uint64_t bytes = 0, rows = 1, pitch = 0;
};

/* An identity and a function of two elements as a reduction; C calls it for elements one after the other. */
template <class T, class F> struct reduction_of {
    T identity;
    F combine;
    static void begin_it(void *user, void *to, std::uint64_t bytes) noexcept
    {
        T *items = static_cast<T *>(to);
        for (std::uint64_t i = 0; i < bytes / sizeof(T); i++)
            items[i] = static_cast<reduction_of *>(user)->identity;
    }
    static void combine_it(void *user, void *into, const void *from, std::uint64_t bytes) noexcept
    {
        T *items = static_cast<T *>(into);
        const T *others = static_cast<const T *>(from);
        for (std::uint64_t i = 0; i < bytes / sizeof(T); i++)
            items[i] = static_cast<reduction_of *>(user)->combine(items[i], others[i]);
    }
};
} // namespace detail

/*
 * Data that the host accesses, until this goes: muster_data_acquire. Items of type T, which are const
 * if they are only read; none if the data is a token.
 */
template <class T> class acquired
{
  public:
    acquired() noexcept = default;
    acquired(muster_runtime *m, muster_data handle, tile_span<T> items) noexcept
        : c_(m, handle), items_(items)
    {
    }
    /* Of a range: all of it. */
    T *data() const noexcept
    {
        return items_.data();
    }
    std::size_t size() const noexcept
    {
        return items_.rows() * items_.columns();
    }
    T *begin() const noexcept
    {
        return data();
    }
    T *end() const noexcept
    {
        return data() + size();
    }
    T &operator[](std::size_t index) const noexcept
    {
        return data()[index];
    }
    /* Of a tile. */
    tile_span<T> tile() const noexcept
    {
        return items_;
    }
    /* Now. */
    void release() noexcept
    {
        c_.reset();
    }

  private:
    static void give_back(muster_runtime *m, muster_data handle)
    {
        muster_data_release(m, handle, nullptr);
    }
    detail::owned<muster_data, give_back> c_;
    tile_span<T> items_;
};

/*
 * Host memory, or a size alone, that may be on devices, and that tasks say they read and write; or a
 * part of it. Its destructor waits for what accesses it and brings it home; close() says how that went.
 * Parts must go before the whole; declared after it, they do.
 */
class data : public detail::owned<muster_data, detail::release_data>
{
  public:
    using owned::owned;
    data() noexcept = default;
    data(muster_runtime *m, muster_data handle, const detail::data_shape &shape) noexcept
        : owned(m, handle), shape_(shape)
    {
    }
    data(data &&) noexcept = default;
    data &operator=(data &&) noexcept = default;
    ~data()
    {
        reset(); /* what it is reduced by goes after it */
    }
    std::uint64_t bytes() const noexcept
    {
        return shape_.bytes;
    }
    /* Before the host memory changes: drops the replicas. */
    result<void> try_invalidate()
    {
        return detail::call([&](auto *err) { return muster_data_invalidate(m_, handle_, err); });
    }
    void invalidate()
    {
        try_invalidate().value();
    }
    /* Waits, brings it home and forgets it; with MUSTER_E_TIMEOUT and MUSTER_E_BUSY it is as before. */
    result<void> try_close()
    {
        struct muster_error err;
        const muster_status status = muster_data_destroy(m_, handle_, &err);
        if (status != MUSTER_E_TIMEOUT && status != MUSTER_E_BUSY && status != MUSTER_E_ORDER)
            m_ = nullptr;
        if (status != MUSTER_OK)
            return err;
        return {};
    }
    void close()
    {
        try_close().value();
    }
    /* A range of its bytes. */
    result<data> try_part(std::uint64_t offset, std::uint64_t bytes) const
    {
        struct muster_error err;
        muster_data made;
        if (muster_data_part(m_, handle_, offset, bytes, &made, &err) != MUSTER_OK)
            return err;
        return data(m_, made, { bytes, 1, bytes });
    }
    data part(std::uint64_t offset, std::uint64_t bytes) const
    {
        return try_part(offset, bytes).value();
    }
    /* Rows of it: muster_data_tile. */
    result<data> try_tile(std::uint64_t row, std::uint64_t rows, std::uint64_t column_bytes,
                          std::uint64_t row_bytes, std::uint64_t pitch) const
    {
        struct muster_error err;
        muster_data made;
        if (muster_data_tile(m_, handle_, row, rows, column_bytes, row_bytes, pitch, &made, &err) !=
            MUSTER_OK)
            return err;
        return data(m_, made, { rows * row_bytes, rows, pitch });
    }
    data tile(std::uint64_t row, std::uint64_t rows, std::uint64_t column_bytes,
              std::uint64_t row_bytes, std::uint64_t pitch) const
    {
        return try_tile(row, rows, column_bytes, row_bytes, pitch).value();
    }
    /*
     * For the host, in order with the tasks: acquire<const float>() to read, acquire<float>() to read
     * and write, acquire<float>(MUSTER_WRITE) where what was there does not matter.
     */
    template <class T>
    result<acquired<T>> try_acquire(enum muster_mode mode = std::is_const_v<T> ? MUSTER_READ
                                                                               : MUSTER_READ_WRITE,
                                    nanoseconds timeout = forever)
    {
        struct muster_error err;
        void *pointer;
        if (std::is_const_v<T> && mode != MUSTER_READ)
            return error::made(MUSTER_E_INVALID, "items that are const are acquired to be written");
        if (muster_data_acquire(m_, handle_, mode, detail::as_ns(timeout), &pointer, &err) !=
            MUSTER_OK)
            return err;
        const std::size_t rows = static_cast<std::size_t>(shape_.rows);
        return acquired<T>(m_, handle_,
                           { static_cast<T *>(pointer), rows,
                             static_cast<std::size_t>(shape_.bytes) / rows / sizeof(T),
                             static_cast<std::size_t>(shape_.pitch) });
    }
    template <class T>
    acquired<T> acquire(enum muster_mode mode = std::is_const_v<T> ? MUSTER_READ
                                                                   : MUSTER_READ_WRITE,
                        nanoseconds timeout = forever)
    {
        return try_acquire<T>(mode, timeout).value();
    }
    /*
     * How contributions of tasks that reduce into it are combined, element by element: as
     * combine(a, b), which must not throw, beginning with the identity. Before the first such task, once.
     */
    template <class T, class F> result<void> try_reduction(const T &identity, F &&combine)
    {
        using pair = detail::reduction_of<T, std::decay_t<F>>;
        static_assert(std::is_trivially_copyable_v<T>, "elements are copied between devices");
        auto made = std::make_shared<pair>(pair{ identity, std::forward<F>(combine) });
        sized<struct muster_reduction> how;
        how.user = made.get();
        how.begin = pair::begin_it;
        how.combine = pair::combine_it;
        result<void> done =
            detail::call([&](auto *err) { return muster_data_reduction(m_, handle_, &how, err); });
        if (done)
            reduction_ = std::move(made);
        return done;
    }
    template <class T, class F> void reduction(const T &identity, F &&combine)
    {
        try_reduction(identity, std::forward<F>(combine)).value();
    }

  private:
    detail::data_shape shape_;
    std::shared_ptr<void> reduction_;
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
