/*
 * Jobs that run beside the program: what to do (work), what is delivered (unit_result), and the job
 * itself. Included by muster.hpp; a runtime starts them.
 */
#ifndef MUSTER_CPP_JOB_HPP
#define MUSTER_CPP_JOB_HPP

#include <array>
#include <muster/cpp/pipeline.hpp>
#include <vector>

namespace muster
{

/* A result that a sink has kept: valid until this goes, which must be before its job goes. */
class kept
{
  public:
    kept() noexcept = default;
    explicit kept(muster_kept *from) noexcept : c_(from)
    {
    }
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }
    const struct muster_result &get() const noexcept
    {
        return *muster_kept_result(c_.get());
    }

  private:
    std::unique_ptr<muster_kept, detail::destroy> c_;
};

/* A unit's results, valid within the sink. */
class unit_result
{
  public:
    explicit unit_result(const struct muster_result &from) noexcept : c_(from)
    {
    }
    std::uint64_t begin() const noexcept
    {
        return c_.range.begin;
    }
    std::uint64_t end() const noexcept
    {
        return c_.range.end;
    }
    std::size_t items() const noexcept
    {
        return static_cast<std::size_t>(c_.range.end - c_.range.begin);
    }
    /* One output, in the order of the arguments that are written or of the pipeline's outputs. */
    template <class T> span<const T> output(std::size_t index = 0) const
    {
        if (index >= c_.output_count)
            throw error(MUSTER_E_INVALID, "a result does not have that many outputs");
        return { static_cast<const T *>(c_.outputs[index]), c_.output_bytes[index] / sizeof(T) };
    }
    /* How each item ended; empty unless the job has each_status. */
    span<const muster_status> statuses() const noexcept
    {
        return { c_.statuses, c_.statuses ? items() : 0 };
    }
    /* The items as the source gave them; empty without a source, and of a pipeline's job. */
    template <class T> span<const T> supplied() const noexcept
    {
        return { static_cast<const T *>(c_.supplied), c_.supplied ? items() : 0 };
    }
    result<kept> try_keep() const
    {
        struct muster_error err;
        muster_kept *made;
        if (muster_result_retain(&c_, &made, &err) != MUSTER_OK)
            return err;
        return kept(made);
    }
    kept keep() const
    {
        return try_keep().value();
    }
    const struct muster_result &get() const noexcept
    {
        return c_;
    }

  private:
    const struct muster_result &c_;
};

namespace detail
{
/* A job's lambdas, and those of its pipeline, which must stay as long as a call may be under way. */
struct job_calls {
    function<muster_status(const struct muster_result &)> sink;
    function<std::int64_t(std::uint64_t, std::uint64_t, void *)> source;
    std::shared_ptr<stage_bodies> stages;
    thrown_slot thrown;

    static muster_status call_sink(void *user, const struct muster_result *result) noexcept
    {
        job_calls *calls = static_cast<job_calls *>(user);
        try {
            return calls->sink(*result);
        } catch (...) {
            return calls->thrown.keep();
        }
    }
    static std::int64_t call_source(void *user, std::uint64_t begin, std::uint64_t items, void *to,
                                    std::size_t) noexcept
    {
        job_calls *calls = static_cast<job_calls *>(user);
        try {
            return calls->source(begin, items, to);
        } catch (...) {
            return calls->thrown.keep();
        }
    }
};
} // namespace detail

/*
 * What a job is to do:
 *
 *     muster::work(k, n, { muster::supplied<float>(), muster::out(y) })
 *         .source<float>([&](uint64_t begin, muster::span<float> to) { ...; return items; })
 *         .sink([&](const muster::unit_result &result) { ... })
 *
 * Kernel, pipeline, arrays and what lambdas refer to are borrowed until the job is over.
 */
class work
{
  public:
    work(const kernel &what, std::uint64_t items, args list) : work(what, &items, list)
    {
    }
    /* As many items as its arrays have. */
    work(const kernel &what, args list) : work(what, nullptr, list)
    {
    }
    work(const pipeline &what, std::uint64_t items)
    {
        desc_.pipeline = what.get();
        desc_.items = items;
        wanted_ = true;
        calls().stages = what.bodies();
    }
    /*
     * Where items come from: f(begin, span of T to fill) returns how many it has filled, 0 at the end,
     * or a negative status. Up to `at_once` calls of it run at a time.
     */
    template <class T, class F> work &&source(F &&f, std::uint32_t at_once = 1) &&
    {
        static_assert(std::is_trivially_copyable_v<T>);
        calls().source = decltype(calls_->source)([kept = std::forward<F>(f)](std::uint64_t begin,
                                                                              std::uint64_t items,
                                                                              void *to) mutable {
            return static_cast<std::int64_t>(
                kept(begin, span<T>(static_cast<T *>(to), static_cast<std::size_t>(items))));
        });
        desc_.source = detail::job_calls::call_source;
        desc_.source_user = calls_.get();
        desc_.source_calls = at_once;
        return std::move(*this);
    }
    /* Who gets the results: f(const unit_result &) returns nothing or a status. */
    template <class F> work &&sink(F &&f) &&
    {
        calls().sink = decltype(calls_->sink)(
            [kept = std::forward<F>(f)](const struct muster_result &result) mutable {
                return detail::call_for_status(kept, unit_result(result));
            });
        desc_.sink = detail::job_calls::call_sink;
        desc_.sink_user = calls_.get();
        return std::move(*this);
    }
    /* How each item ended; a failing item then fails alone. At least as many as there are items. */
    work &&each_status(span<muster_status> statuses) &&
    {
        statuses_ = statuses;
        return std::move(*this);
    }
    /* Of a pipeline without a source: all its items. */
    template <class C> work &&input(const C &items) &&
    {
        desc_.input = std::data(items);
        return std::move(*this);
    }
    /* Where a pipeline's only output goes too. */
    template <class C> work &&output(C &&items) &&
    {
        static_assert(detail::is_writable<C>, "an output to items that are const");
        desc_.output = std::data(items);
        return std::move(*this);
    }
    /* Of a reduction: where its result goes. */
    template <class R> work &&into(R &to) &&
    {
        static_assert(std::is_trivially_copyable_v<R>);
        desc_.result = &to;
        desc_.result_bytes = sizeof to;
        return std::move(*this);
    }
    work &&with(const struct muster_run_options &how) &&
    {
        options_ = how;
        return std::move(*this);
    }

  private:
    friend class runtime;
    work(const kernel &what, const std::uint64_t *items, args list)
    {
        desc_.kernel = what.get();
        desc_.items = items ? *items : 0;
        wanted_ = items != nullptr;
        kernel_thrown_ = what.thrown();
        /* More than there may be are counted, and refused by the start. */
        for (const arg &one : list)
            if (arg_count_++ < args_.size())
                args_[arg_count_ - 1] = one;
    }
    detail::job_calls &calls()
    {
        if (!calls_)
            calls_ = std::make_unique<detail::job_calls>();
        return *calls_;
    }

    sized<muster_job_desc> desc_;
    std::unique_ptr<detail::job_calls> calls_;
    std::array<arg, MUSTER_ARGS_MAX> args_;
    std::size_t arg_count_ = 0;
    std::optional<struct muster_run_options> options_;
    span<muster_status> statuses_;
    detail::thrown_slot *kernel_thrown_ = nullptr;
    bool wanted_ = false;
};

/* A job that was started. The destructor cancels it if it runs, and waits for its end. */
class [[nodiscard]] job
{
  public:
    job() noexcept = default;
    job(muster_job *from, std::unique_ptr<detail::job_calls> calls,
        detail::thrown_slot *kernel_thrown) noexcept
        : c_(from), calls_(std::move(calls)), kernel_thrown_(kernel_thrown)
    {
    }
    job(job &&from) noexcept
        : c_(std::exchange(from.c_, nullptr)), calls_(std::move(from.calls_)),
          kernel_thrown_(from.kernel_thrown_)
    {
    }
    job &operator=(job &&from) noexcept
    {
        if (this != &from) {
            reset();
            c_ = std::exchange(from.c_, nullptr);
            calls_ = std::move(from.calls_);
            kernel_thrown_ = from.kernel_thrown_;
        }
        return *this;
    }
    ~job()
    {
        reset();
    }
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }
    muster_job *get() const noexcept
    {
        return c_;
    }
    /* Waits for its end; MUSTER_E_TIMEOUT: it is not over yet, and goes on. */
    result<void> try_wait(struct muster_report *told = nullptr, nanoseconds timeout = forever)
    {
        struct muster_error err;
        const muster_status status =
            timeout == forever ? muster_job_wait(c_, told, &err)
                               : muster_job_wait_for(c_, detail::as_ns(timeout), told, &err);
        if (status == MUSTER_OK) {
            thrown(status);
            return {};
        }
        if (status == MUSTER_E_TIMEOUT || status == MUSTER_E_ORDER)
            return err;
        return { err, thrown(status) };
    }
    void wait(struct muster_report *told = nullptr, nanoseconds timeout = forever)
    {
        try_wait(told, timeout).value();
    }
    void cancel() noexcept
    {
        muster_job_cancel(c_);
    }
    result<muster::progress> try_progress() const
    {
        struct muster_error err;
        muster::progress made;
        if (muster_job_progress(c_, &made, &err) != MUSTER_OK)
            return err;
        return made;
    }
    muster::progress progress() const
    {
        return try_progress().value();
    }
    result<std::vector<job_device>> try_devices() const
    {
        struct muster_error err;
        std::vector<job_device> made(8);
        std::size_t count = 0;
        muster_status status;
        /* A device may join between two calls. */
        while ((status = muster_job_devices(c_, made.data(), made.size(), &count, &err)) ==
                   MUSTER_E_CAPACITY &&
               count > made.size())
            made.resize(count);
        if (status != MUSTER_OK)
            return err;
        made.resize(count);
        return made;
    }
    std::vector<job_device> devices() const
    {
        return try_devices().value();
    }

  private:
    std::exception_ptr thrown(muster_status status) noexcept
    {
        std::exception_ptr found = calls_ ? calls_->thrown.take(status) : nullptr;
        if (calls_ && calls_->stages)
            if (std::exception_ptr more = calls_->stages->take(status); !found)
                found = more;
        if (kernel_thrown_)
            if (std::exception_ptr more = kernel_thrown_->take(status); !found)
                found = more;
        return found;
    }
    void reset() noexcept
    {
        if (!c_)
            return;
        muster_job_cancel(c_);
        const muster_status status = muster_job_wait(c_, nullptr, nullptr);
        muster_job_destroy(std::exchange(c_, nullptr));
        /*
         * A callback has not returned, or this is within one: what it uses must stay, so it is
         * abandoned, as Muster abandons what the callback uses of the job.
         */
        if (status == MUSTER_E_DEVICE_HUNG || status == MUSTER_E_ORDER)
            (void)calls_.release();
        calls_.reset();
    }
    muster_job *c_ = nullptr;
    std::unique_ptr<detail::job_calls> calls_;
    detail::thrown_slot *kernel_thrown_ = nullptr;
};

} // namespace muster

#endif
