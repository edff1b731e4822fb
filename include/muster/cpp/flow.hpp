/*
 * Data flow: what a task does with data, bodies that are given where it is, and recorded graphs.
 * Included by muster.hpp; a runtime submits and records.
 */
#ifndef MUSTER_CPP_FLOW_HPP
#define MUSTER_CPP_FLOW_HPP

#include <array>
#include <muster/cpp/task.hpp>
#include <vector>

namespace muster
{

/* What a task does with a piece of data: { muster::read(x), muster::update(y) }. */
inline struct muster_task_access read(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_READ);
}
/* All of it: what was there before is not brought. */
inline struct muster_task_access write(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_WRITE);
}
inline struct muster_task_access update(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_READ_WRITE);
}
/* Tasks that follow each other and commute take turns in any order. */
inline struct muster_task_access commute(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_COMMUTE);
}
/* Into a contribution of the task's: data::reduction. */
inline struct muster_task_access reduce(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_REDUCE);
}
inline struct muster_task_access token(muster_data data) noexcept
{
    return muster_task_access_of(data, MUSTER_TOKEN);
}

/* The accesses of a task: a list in braces, or any array of them. */
class accesses : public span<const struct muster_task_access>
{
  public:
    accesses(std::initializer_list<struct muster_task_access> list) noexcept
        : span(list.begin(), list.size())
    {
    }
    template <class C, class = std::enable_if_t<
                           std::is_convertible_v<C &&, span<const struct muster_task_access>>>>
    accesses(C &&list) noexcept : span(std::forward<C>(list))
    {
    }
};

/* Of a kernel's task: access number `index`, whole. */
inline arg accessed(std::size_t index) noexcept
{
    return arg(muster_arg_access(MUSTER_ARG_ACCESS, index));
}
/* The bytes from one of its rows to the next where the task runs, a std::uint64_t. */
inline arg pitch(std::size_t index) noexcept
{
    return arg(muster_arg_access(MUSTER_ARG_PITCH, index));
}

/* What a task's body is given: where its accesses are, in their order. Valid until it returns. */
class native
{
  public:
    explicit native(const struct muster_native &from) noexcept : c_(from)
    {
    }
    std::size_t count() const noexcept
    {
        return c_.count;
    }
    /* A range; of a tile the first row. T is const for what is only read. */
    template <class T> span<T> array(std::size_t index) const
    {
        return tile<T>(index)[0];
    }
    template <class T> tile_span<T> tile(std::size_t index) const
    {
        if (index >= c_.count)
            throw error(MUSTER_E_INVALID, "a task does not have that many accesses");
        const std::size_t rows = static_cast<std::size_t>(c_.rows[index]);
        return { static_cast<T *>(c_.pointers[index]), rows,
                 rows ? static_cast<std::size_t>(c_.bytes[index]) / rows / sizeof(T) : 0,
                 static_cast<std::size_t>(c_.pitches[index]) };
    }
    muster_device device() const noexcept
    {
        return c_.device;
    }
    const char *backend() const noexcept
    {
        return c_.backend;
    }
    /* Where to enqueue, which is all that a body may do there; NULL where work is done at once. */
    void *stream() const noexcept
    {
        return c_.stream;
    }
    const struct muster_native &get() const noexcept
    {
        return c_;
    }

  private:
    const struct muster_native &c_;
};

/*
 * One body for each backend: muster::bodies().on("cpu", f).on("cuda", g), each called as
 * f(const muster::native &). A lambda alone is for cpu and sim. The names are borrowed: literals.
 */
class bodies
{
  public:
    template <class F> bodies &&on(const char *backend, F &&f) &&
    {
        auto kept = [own = std::decay_t<F>(std::forward<F>(f))](const native &at) mutable {
            return detail::call_for_status(own, at);
        };
        list_.push_back({ backend, function(std::move(kept)) });
        return std::move(*this);
    }
    muster_status operator()(const native &at) const
    {
        for (const one &form : list_)
            if (std::strcmp(form.backend, at.backend()) == 0)
                return form.f(at);
        return MUSTER_E_NOT_SUPPORTED;
    }
    std::size_t size() const noexcept
    {
        return list_.size();
    }
    const char *backend(std::size_t index) const noexcept
    {
        return list_[index].backend;
    }

  private:
    using function = detail::function<muster_status(const native &)>;
    struct one {
        const char *backend;
        function f;
    };
    std::vector<one> list_;
};

namespace detail
{
/* A lambda that is given where data is; called again where its device was lost. */
template <class F> class native_of final : public task_body
{
  public:
    template <class G> explicit native_of(G &&f) : f_(std::forward<G>(f))
    {
    }
    muster_status run(const struct muster_native *at) noexcept override
    {
        /* A device may have it run again: it would throw the same. */
        if (!graph_ && thrown_)
            return MUSTER_E_FAILED;
        try {
            return call_for_status(*f_, native(*at));
        } catch (...) {
            return keep();
        }
    }
    void drop() noexcept override
    {
        f_.reset();
    }

  private:
    std::optional<F> f_;
};

/* The names of the backends that a body is for. */
template <class F>
std::size_t find_backends(const F &body, const char *(&names)[MUSTER_BODIES_MAX]) noexcept
{
    if constexpr (std::is_same_v<F, bodies>) {
        for (std::size_t i = 0; i < body.size() && i < MUSTER_BODIES_MAX; i++)
            names[i] = body.backend(i);
        return body.size();
    } else {
        (void)body;
        names[0] = "cpu";
        names[1] = "sim";
        return 2;
    }
}

/* What a graph's tasks need as long as it may run. */
struct graph_calls {
    muster_runtime *m = nullptr;
    std::vector<task_body *> bodies; /* one owner's share of each */
    std::shared_ptr<thrown_slot> thrown = std::make_shared<thrown_slot>();

    explicit graph_calls(muster_runtime *runtime) : m(runtime)
    {
    }
    graph_calls(const graph_calls &) = delete;
    graph_calls &operator=(const graph_calls &) = delete;
    ~graph_calls()
    {
        for (task_body *body : bodies) {
            body->drop();
            body->release();
            body->release();
        }
    }
    /* What this thread records. */
    static graph_calls *&now() noexcept
    {
        static thread_local graph_calls *recorded = nullptr;
        return recorded;
    }
    static graph_calls *of(const muster_runtime *m) noexcept
    {
        graph_calls *recorded = now();
        return recorded && recorded->m == m ? recorded : nullptr;
    }
};
} // namespace detail

/* In a run of a graph `to` takes the place of `from`: data of the same shape. */
inline struct muster_graph_change change(muster_data from, muster_data to) noexcept
{
    struct muster_graph_change made = {};
    made.size = sizeof made;
    made.from = from;
    made.to = to;
    return made;
}

/*
 * Tasks that were recorded, to be submitted again as one. The destructor waits for its runs. The data
 * that it accesses, and what its lambdas refer to, must stay as long. Runs with other data may run at
 * the same time, and then call the same lambdas at the same time.
 */
class graph
{
  public:
    graph() noexcept = default;
    graph(muster_runtime *m, muster_graph *from,
          std::unique_ptr<detail::graph_calls> calls) noexcept
        : m_(m), calls_(std::move(calls)), c_(from)
    {
    }
    graph(graph &&) noexcept = default;
    graph &operator=(graph &&from) noexcept
    {
        c_ = std::move(from.c_); /* waits for runs, which need the lambdas */
        calls_ = std::move(from.calls_);
        m_ = from.m_;
        return *this;
    }
    ~graph() = default;
    explicit operator bool() const noexcept
    {
        return c_ != nullptr;
    }
    muster_graph *get() const noexcept
    {
        return c_.get();
    }
    /* If two runs throw at once, one wait may throw the exception of the other. */
    result<task> try_run(std::initializer_list<struct muster_graph_change> changes = {})
    {
        return try_run(span<const struct muster_graph_change>(changes.begin(), changes.size()));
    }
    result<task> try_run(span<const struct muster_graph_change> changes)
    {
        struct muster_error err;
        muster_task made;
        if (muster_graph_run(m_, c_.get(), changes.data(), changes.size(), &made, &err) !=
            MUSTER_OK)
            return err;
        return task(m_, made, calls_->thrown);
    }
    task run(std::initializer_list<struct muster_graph_change> changes = {})
    {
        return try_run(changes).value();
    }
    task run(span<const struct muster_graph_change> changes)
    {
        return try_run(changes).value();
    }

  private:
    muster_runtime *m_ = nullptr;
    std::unique_ptr<detail::graph_calls> calls_;
    std::unique_ptr<muster_graph, detail::destroy> c_; /* after the calls: it goes before them */
};

} // namespace muster

#endif
