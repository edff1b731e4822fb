/*
 * Pipelines: buffers, stages with kernels or lambdas, and the unit that a lambda is given. Included by
 * muster.hpp; a runtime makes them.
 */
#ifndef MUSTER_CPP_PIPELINE_HPP
#define MUSTER_CPP_PIPELINE_HPP

#include <muster/cpp/owners.hpp>
#include <string>
#include <vector>

namespace muster
{

/* Buffers by their numbers, as a stage reads or writes them: bits(IN, MASK). */
template <class... I> constexpr std::uint64_t bits(I... buffers) noexcept
{
    return ((std::uint64_t{ 1 } << buffers) | ... | std::uint64_t{ 0 });
}

/* Room for a unit: its items x `bytes_per_item`, on the host or on the device. */
inline struct muster_buffer host_buffer(const char *name, std::size_t bytes_per_item,
                                        std::uint32_t flags = 0) noexcept
{
    sized<muster_buffer> made;
    made.name = name;
    made.place = MUSTER_HOST;
    made.bytes_per_item = bytes_per_item;
    made.flags = flags;
    return made;
}
inline struct muster_buffer device_buffer(const char *name, std::size_t bytes_per_item,
                                          std::uint32_t flags = 0) noexcept
{
    struct muster_buffer made = host_buffer(name, bytes_per_item, flags);
    made.place = MUSTER_DEVICE;
    return made;
}

/* The unit that a stage's lambda was given, valid within it. Its calls throw. */
class unit
{
  public:
    explicit unit(muster_unit *from) noexcept : c_(from)
    {
    }
    std::uint64_t begin() const noexcept
    {
        std::uint64_t begin, end;
        muster_unit_range(c_, &begin, &end);
        return begin;
    }
    std::uint64_t end() const noexcept
    {
        std::uint64_t begin, end;
        muster_unit_range(c_, &begin, &end);
        return end;
    }
    std::uint64_t items() const noexcept
    {
        return end() - begin();
    }
    struct muster_view view(std::uint32_t buffer) const
    {
        sized<muster_view> made;
        detail::call([&](auto *err) { return muster_unit_view(c_, buffer, &made, err); }).value();
        return made;
    }
    /* What counts of a buffer that the host can reach, as items of type T; else it is empty. */
    template <class T> span<T> host(std::uint32_t buffer) const
    {
        const struct muster_view made = view(buffer);
        return { static_cast<T *>(made.host), made.host ? made.bytes / sizeof(T) : 0 };
    }
    /* From here on this many bytes of the unit's part count. */
    void set_bytes(std::uint32_t buffer, std::size_t bytes) const
    {
        detail::call([&](auto *err) {
            return muster_unit_set_bytes(c_, buffer, bytes, err);
        }).value();
    }
    /* Launches over [0, items) with MUSTER_VIEW, MUSTER_UNIT_VALUE and so on. */
    void launch(const kernel &what, std::uint64_t items,
                std::initializer_list<struct muster_unit_arg> list) const
    {
        detail::call([&](auto *err) {
            return muster_unit_launch(c_, what.get(), items, list.begin(), list.size(), err);
        }).value();
    }
    void *native() const noexcept
    {
        return muster_unit_native(c_);
    }
    muster_device device() const noexcept
    {
        return muster_unit_device(c_);
    }
    muster_unit *get() const noexcept
    {
        return c_;
    }

  private:
    muster_unit *c_;
};

namespace detail
{
struct stage_body {
    function<muster_status(unit)> run;
    thrown_slot thrown;

    static muster_status call(muster_unit *c, void *user) noexcept
    {
        stage_body *body = static_cast<stage_body *>(user);
        try {
            return body->run(unit(c));
        } catch (...) {
            return body->thrown.keep();
        }
    }
};
/* What stages call: their lambdas, and where kernels that are lambdas keep their exceptions. */
struct stage_bodies {
    std::vector<std::shared_ptr<stage_body>> lambdas;
    std::vector<thrown_slot *> kernels;

    std::exception_ptr take(muster_status status) noexcept
    {
        std::exception_ptr found;
        for (const auto &body : lambdas)
            if (std::exception_ptr more = body->thrown.take(status); !found)
                found = more;
        for (thrown_slot *slot : kernels)
            if (std::exception_ptr more = slot->take(status); !found)
                found = more;
        return found;
    }
};
} // namespace detail

/*
 * One step of a unit's way. Lambdas take a muster::unit and return nothing or a status; units run
 * beside each other, so a lambda is called by several threads at once unless it has MUSTER_CARRIES.
 */
class stage
{
  public:
    /* Moves what it reads, one buffer, to what it writes, one other. */
    static stage copy(const char *name, const char *stream, std::uint64_t reads,
                      std::uint64_t writes)
    {
        stage made(name, stream, reads, writes, MUSTER_COPY);
        return made;
    }
    /* A kernel over the unit's items: the buffers that it reads, then those that it only writes. */
    stage(const char *name, const char *stream, std::uint64_t reads, std::uint64_t writes,
          const kernel &what, std::uint32_t flags = 0)
        : stage(name, stream, reads, writes, flags)
    {
        c_.kernel = what.get();
        kernel_thrown_ = what.thrown();
    }
    /* A lambda on a stream, which enqueues, or on "host", which computes. */
    template <class F, class = std::enable_if_t<std::is_invocable_v<std::decay_t<F> &, unit>>>
    stage(const char *name, const char *stream, std::uint64_t reads, std::uint64_t writes, F &&f,
          std::uint32_t flags = 0)
        : stage(name, stream, reads, writes, flags)
    {
        body_ = std::make_shared<detail::stage_body>();
        body_->run = decltype(body_->run)([kept = std::forward<F>(f)](unit given) mutable {
            return detail::call_for_status(kept, given);
        });
        c_.run = detail::stage_body::call;
        c_.user = body_.get();
    }
    /* The kernel that the lambda launches: devices that cannot run it take no part. */
    stage launches(const kernel &what) const
    {
        stage made = *this;
        made.c_.kernel = what.get();
        made.kernel_thrown_ = what.thrown();
        return made;
    }
    /* Once for this many units. */
    stage every(std::uint32_t units) const
    {
        stage made = *this;
        made.c_.every = units;
        return made;
    }
    const struct muster_stage &get() const noexcept
    {
        return c_;
    }
    void add_to(detail::stage_bodies &bodies) const
    {
        if (body_)
            bodies.lambdas.push_back(body_);
        if (kernel_thrown_)
            bodies.kernels.push_back(kernel_thrown_);
    }

  private:
    stage(const char *name, const char *stream, std::uint64_t reads, std::uint64_t writes,
          std::uint32_t flags)
    {
        c_.name = name;
        c_.stream = stream;
        c_.reads = reads;
        c_.writes = writes;
        c_.flags = flags;
    }
    sized<muster_stage> c_;
    std::shared_ptr<detail::stage_body> body_;
    detail::thrown_slot *kernel_thrown_ = nullptr;
};

/*
 * A pipeline that was checked and proven. Its jobs must be over before it goes. An exception of a
 * stage's lambda is thrown by the wait for the first job of the pipeline that fails with its status.
 */
class pipeline
{
  public:
    pipeline() noexcept = default;
    pipeline(muster_pipeline *from, std::shared_ptr<detail::stage_bodies> bodies) noexcept
        : bodies_(std::move(bodies)), c_(from)
    {
    }
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }
    muster_pipeline *get() const noexcept
    {
        return c_.get();
    }
    const std::shared_ptr<detail::stage_bodies> &bodies() const noexcept
    {
        return bodies_;
    }
    /* The pipeline with its edges, as text or as a graph. */
    result<std::string> try_print(enum muster_schedule schedule = MUSTER_SCHEDULE_AUTO,
                                  enum muster_print_format format = MUSTER_PRINT_TEXT) const
    {
        struct muster_error err;
        std::size_t needed = 0;
        std::string text(4096, '\0');
        muster_status status;
        while ((status = muster_pipeline_print(c_.get(), schedule, format, text.data(), text.size(),
                                               &needed, &err)) == MUSTER_E_CAPACITY &&
               needed > text.size())
            text.resize(needed);
        if (status != MUSTER_OK)
            return err;
        text.resize(std::strlen(text.c_str()));
        return text;
    }
    std::string print(enum muster_schedule schedule = MUSTER_SCHEDULE_AUTO,
                      enum muster_print_format format = MUSTER_PRINT_TEXT) const
    {
        return try_print(schedule, format).value();
    }

  private:
    /* Before the pipeline, which refers to them until it is destroyed. */
    std::shared_ptr<detail::stage_bodies> bodies_;
    std::unique_ptr<muster_pipeline, detail::destroy> c_;
};

} // namespace muster

#endif
