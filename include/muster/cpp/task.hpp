/*
 * Tasks: lambdas and kernels that were submitted. Included by muster.hpp; a runtime makes them.
 */
#ifndef MUSTER_CPP_TASK_HPP
#define MUSTER_CPP_TASK_HPP

#include <atomic>
#include <muster/cpp/owners.hpp>

namespace muster
{

namespace detail
{
/* A lambda and its exception, owned by the task that runs it and by the handle. */
class task_body
{
  public:
    virtual ~task_body() = default;
    /* `native` NULL: a function without accesses, or one that is not given where they are. */
    virtual muster_status run(const struct muster_native *native) noexcept = 0;
    /* Destroys the lambda, so that what it holds goes when the task has ended and not with its handle. */
    virtual void drop() noexcept = 0;
    void release() noexcept
    {
        /* Release: all that this owner did happens before the acquire of the last one, which frees. */
        if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }
    /* After the task has ended. */
    std::exception_ptr thrown() const noexcept
    {
        return thrown_;
    }
    static muster_status run_it(void *body) noexcept
    {
        return static_cast<task_body *>(body)->run(nullptr);
    }
    static muster_status enqueue(void *body, const struct muster_native *native) noexcept
    {
        return static_cast<task_body *>(body)->run(native);
    }
    /* Of a graph, which runs it several times: exceptions go there. */
    void belong_to(thrown_slot &graph) noexcept
    {
        graph_ = &graph;
    }
    static void done(void *body, muster_task, muster_status) noexcept
    {
        static_cast<task_body *>(body)->drop();
        static_cast<task_body *>(body)->release();
    }

  protected:
    /* Within a catch (...). */
    muster_status keep() noexcept
    {
        if (graph_)
            return graph_->keep();
        thrown_ = std::current_exception();
        return status_of_exception();
    }
    std::exception_ptr thrown_;
    thrown_slot *graph_ = nullptr;

  private:
    std::atomic<int> owners_{ 2 };
};

template <class F> class task_of final : public task_body
{
  public:
    template <class G> explicit task_of(G &&f) : f_(std::forward<G>(f))
    {
    }
    muster_status run(const struct muster_native *) noexcept override
    {
        muster_status status;
        try {
            status = call_for_status(*f_);
        } catch (...) {
            status = keep();
        }
        if (!graph_)
            drop();
        return status;
    }
    void drop() noexcept override
    {
        f_.reset();
    }

  private:
    std::optional<F> f_;
};
} // namespace detail

struct task_options {
    const struct muster_hints *hints = nullptr;
    nanoseconds timeout{ 0 }; /* of a kernel on its device; 0: no limit */
    bool is_awaited = false;  /* the caller is about to wait for it */
    const char *name = nullptr;
    std::int32_t priority = 0; /* -16 to 15: of ready tasks the highest begin first */
};

/*
 * A task that was submitted. The destructor waits for it, as that of a std::async's future does, since
 * lambdas refer to what is around them; detach() lets it go. A task that others are after may go, and
 * be detached, before those. One that was waited for may outlive its runtime.
 */
class [[nodiscard]] task
{
  public:
    task() noexcept = default;
    task(muster_runtime *m, muster_task handle, detail::task_body *body,
         detail::thrown_slot *kernel_thrown = nullptr) noexcept
        : m_(m), handle_(handle), body_(body), kernel_thrown_(kernel_thrown)
    {
    }
    /* A run of a graph. */
    task(muster_runtime *m, muster_task handle, std::shared_ptr<detail::thrown_slot> graph) noexcept
        : m_(m), handle_(handle), kernel_thrown_(graph.get()), graph_(std::move(graph))
    {
    }
    task(task &&from) noexcept
        : m_(std::exchange(from.m_, nullptr)), handle_(from.handle_),
          body_(std::exchange(from.body_, nullptr)), kernel_thrown_(from.kernel_thrown_),
          graph_(std::move(from.graph_)), has_ended_(from.has_ended_)
    {
    }
    task &operator=(task &&from) noexcept
    {
        if (this != &from) {
            end();
            m_ = std::exchange(from.m_, nullptr);
            handle_ = from.handle_;
            body_ = std::exchange(from.body_, nullptr);
            kernel_thrown_ = from.kernel_thrown_;
            graph_ = std::move(from.graph_);
            has_ended_ = from.has_ended_;
        }
        return *this;
    }
    ~task()
    {
        end();
    }
    muster_task get() const noexcept
    {
        return handle_;
    }
    operator muster_task() const noexcept
    {
        return handle_;
    }
    /* Waits for its end, and gives how it ended; MUSTER_E_TIMEOUT: it has not yet. */
    result<void> try_wait(nanoseconds timeout = forever)
    {
        struct muster_error err;
        const muster_status status = muster_wait(m_, &handle_, 1, detail::as_ns(timeout), &err);
        has_ended_ = status != MUSTER_E_TIMEOUT && status != MUSTER_E_ORDER;
        if (status == MUSTER_OK)
            return {};
        /* Of a task that has not ended the exception may be about to be written. */
        if (!has_ended_)
            return err;
        if (kernel_thrown_)
            return { err, kernel_thrown_->take(status) };
        return { err, body_ ? body_->thrown() : nullptr };
    }
    void wait(nanoseconds timeout = forever)
    {
        try_wait(timeout).value();
    }
    /* MUSTER_E_BUSY: it has begun. */
    result<void> try_cancel()
    {
        return detail::call([&](auto *err) { return muster_cancel(m_, handle_, err); });
    }
    void cancel()
    {
        try_cancel().value();
    }
    /* No thread waits for it any more; what it uses must stay until it has ended. */
    void detach() noexcept
    {
        m_ = nullptr;
        if (detail::task_body *body = std::exchange(body_, nullptr))
            body->release();
    }

  private:
    void end() noexcept
    {
        if (m_ && !has_ended_)
            muster_wait(m_, &handle_, 1, UINT64_MAX, nullptr);
        detach();
    }
    muster_runtime *m_ = nullptr;
    muster_task handle_ = {};
    detail::task_body *body_ = nullptr;
    detail::thrown_slot *kernel_thrown_ = nullptr;
    std::shared_ptr<detail::thrown_slot>
        graph_; /* what kernel_thrown_ points to, of a graph's run */
    bool has_ended_ = false;
};

} // namespace muster

#endif
