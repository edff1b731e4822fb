/*
 * The runtime, which makes everything else. Included by muster.hpp.
 */
#ifndef MUSTER_CPP_RUNTIME_HPP
#define MUSTER_CPP_RUNTIME_HPP

#include <muster/cpp/flow.hpp>
#include <muster/cpp/job.hpp>

namespace muster
{

/* An open runtime; what it has made must go before it. The destructor closes it (muster_close). */
class runtime
{
  public:
    /* Throws what try_open has as an error. */
    runtime() : runtime(try_open().value())
    {
    }
    explicit runtime(const struct muster_options &how) : runtime(try_open(how).value())
    {
    }
    /* Takes it over; NULL: a runtime that was moved away. */
    explicit runtime(muster_runtime *from) noexcept : c_(from)
    {
    }
    static result<runtime> try_open(const struct muster_options &how = options())
    {
        struct muster_error err;
        muster_runtime *made = nullptr;
        if (muster_open(&made, &how, &err) != MUSTER_OK)
            return err;
        return runtime(made);
    }
    runtime(runtime &&from) noexcept : c_(std::exchange(from.c_, nullptr))
    {
    }
    runtime &operator=(runtime &&from) noexcept
    {
        if (this != &from) {
            muster_close(c_, nullptr);
            c_ = std::exchange(from.c_, nullptr);
        }
        return *this;
    }
    ~runtime()
    {
        muster_close(c_, nullptr);
    }
    /*
     * Closes it now, and says what a destructor cannot say: what has not returned, for one. What it has
     * made must have gone before, as before the destructor; tasks that were waited for may stay.
     */
    result<void> try_close()
    {
        struct muster_error err;
        const muster_status status = muster_close(c_, &err);
        if (status != MUSTER_E_ORDER)
            c_ = nullptr;
        if (status != MUSTER_OK)
            return err;
        return {};
    }
    void close()
    {
        try_close().value();
    }
    muster_runtime *get() const noexcept
    {
        return c_;
    }

    /* Devices. */
    result<std::vector<muster_device>> try_devices()
    {
        struct muster_error err;
        std::vector<muster_device> made(8);
        std::size_t count = 0;
        muster_status status;
        while ((status = muster_device_list(c_, made.data(), made.size(), &count, &err)) ==
                   MUSTER_E_CAPACITY &&
               count > made.size())
            made.resize(count);
        if (status != MUSTER_OK)
            return err;
        made.resize(count);
        return made;
    }
    std::vector<muster_device> devices()
    {
        return try_devices().value();
    }
    result<muster_device> try_find(const char *id)
    {
        struct muster_error err;
        muster_device made;
        if (muster_device_find(c_, id, &made, &err) != MUSTER_OK)
            return err;
        return made;
    }
    muster_device find(const char *id)
    {
        return try_find(id).value();
    }
    result<device_info> try_info(muster_device device)
    {
        struct muster_error err;
        device_info made;
        if (muster_device_info(c_, device, &made, &err) != MUSTER_OK)
            return err;
        return made;
    }
    device_info info(muster_device device)
    {
        return try_info(device).value();
    }
    result<device_load> try_load_of(muster_device device)
    {
        struct muster_error err;
        device_load made;
        if (muster_device_load(c_, device, &made, &err) != MUSTER_OK)
            return err;
        return made;
    }
    device_load load_of(muster_device device)
    {
        return try_load_of(device).value();
    }
    /* A device by hints and a policy, "adaptive" unless another is given. */
    result<lease> try_pick(const struct muster_hints &wanted = hints(),
                           const struct muster_policy *policy = nullptr)
    {
        struct muster_error err;
        muster_lease made;
        muster_device device;
        if (muster_pick(c_, policy, &wanted, &made, &device, &err) != MUSTER_OK)
            return err;
        return lease(c_, made, device);
    }
    lease pick(const struct muster_hints &wanted = hints(),
               const struct muster_policy *policy = nullptr)
    {
        return try_pick(wanted, policy).value();
    }
    result<stream> try_acquire(muster_device device, std::int32_t priority = 0)
    {
        struct muster_error err;
        muster_stream made;
        if (muster_stream_acquire(c_, device, priority, &made, &err) != MUSTER_OK)
            return err;
        return stream(c_, made);
    }
    stream acquire(muster_device device, std::int32_t priority = 0)
    {
        return try_acquire(device, priority).value();
    }
    /* Pinned host memory near a device. */
    template <class T>
    result<pinned<T>> try_allocate_pinned(muster_device device, std::size_t count)
    {
        struct muster_error err;
        void *made;
        if (count > SIZE_MAX / sizeof(T))
            return error::made(MUSTER_E_TOO_LARGE, "more items than memory can have");
        if (muster_host_allocate(c_, device, count * sizeof(T), &made, &err) != MUSTER_OK)
            return err;
        std::memset(made, 0, count * sizeof(T));
        return pinned<T>(c_, static_cast<T *>(made), count);
    }
    template <class T> pinned<T> allocate_pinned(muster_device device, std::size_t count)
    {
        return try_allocate_pinned<T>(device, count).value();
    }

    /* Kernels: of a file; `entry` NULL: the only one in it. */
    result<kernel> try_load(const char *path, const char *entry = nullptr)
    {
        struct muster_error err;
        muster_kernel *made;
        if (muster_kernel_load(c_, path, entry, &made, &err) != MUSTER_OK)
            return err;
        return kernel(made);
    }
    kernel load(const char *path, const char *entry = nullptr)
    {
        return try_load(path, entry).value();
    }
    /* Of forms: muster_kernel_from. */
    result<kernel> try_kernel(const char *name, span<const muster_kernel_form> forms)
    {
        struct muster_error err;
        muster_kernel *made;
        if (muster_kernel_from(c_, name, forms.data(), forms.size(), &made, &err) != MUSTER_OK)
            return err;
        return kernel(made);
    }
    kernel make_kernel(const char *name, span<const muster_kernel_form> forms)
    {
        return try_kernel(name, forms).value();
    }
    /*
     * Of a lambda without captures, for devices that run functions of this process: called as
     * f(begin, end, kernel_args) for disjoint parts of a range, by several threads at once. The
     * exceptions of one lambda's kernels share a place: if two of them fail at once, one wait may throw
     * the exception of the other.
     */
    template <class F> result<kernel> try_function(const char *name, const F &f)
    {
        using body = detail::kernel_function<F>;
        struct muster_error err;
        muster_kernel *made;
        sized<muster_kernel_form> form;
        body::set(f);
        form.kind = MUSTER_KERNEL_FUNCTION;
        form.function = body::run;
        if (muster_kernel_from(c_, name, &form, 1, &made, &err) != MUSTER_OK)
            return err;
        return kernel(made, &body::thrown());
    }
    template <class F> kernel function(const char *name, const F &f)
    {
        return try_function(name, f).value();
    }
    /* Host memory that may stay resident on devices; it must stay as it is while this lives. */
    template <class C> result<data> try_share(const C &items)
    {
        struct muster_error err;
        muster_data made;
        if (muster_data_create(c_, std::data(items), std::size(items) * sizeof *std::data(items), 0,
                               &made, &err) != MUSTER_OK)
            return err;
        const std::uint64_t bytes = std::size(items) * sizeof *std::data(items);
        return data(c_, made, { bytes, 1, bytes });
    }
    template <class C> data share(const C &items)
    {
        return try_share(items).value();
    }
    /*
     * Host memory that tasks say they read and write. From the first of them until data::acquire or the
     * data's end it is theirs.
     */
    template <class C> auto try_data(C &&items) -> decltype(std::data(items), result<data>(data()))
    {
        static_assert(detail::is_writable<C>,
                      "tasks write data; runtime::share takes what is const");
        static_assert(std::is_trivially_copyable_v<detail::item_of<C>>,
                      "items are copied between devices byte by byte");
        return data_at(std::data(items), std::size(items) * sizeof *std::data(items));
    }
    template <class C> auto make_data(C &&items) -> decltype(std::data(items), data())
    {
        return try_data(std::forward<C>(items)).value();
    }
    /* A size alone: its memory is made when a task first writes it. */
    result<data> try_data(std::uint64_t bytes)
    {
        return data_at(nullptr, bytes);
    }
    data make_data(std::uint64_t bytes)
    {
        return try_data(bytes).value();
    }
    /* Data of no bytes, which orders the tasks that name it and nothing else. */
    result<data> try_token()
    {
        return data_at(nullptr, 0);
    }
    data make_token()
    {
        return try_token().value();
    }

    /*
     * A kernel over items on all devices, start to end: muster_for. Without a number of items as many
     * as the arrays have, which must then agree; with one, each must have at least that many.
     */
    result<void> try_for_each(const kernel &what, std::uint64_t items, args list,
                              const struct muster_run_options &how = run_options(),
                              struct muster_report *told = nullptr)
    {
        return run(what, &items, list, how, told);
    }
    result<void> try_for_each(const kernel &what, args list,
                              const struct muster_run_options &how = run_options(),
                              struct muster_report *told = nullptr)
    {
        return run(what, nullptr, list, how, told);
    }
    void for_each(const kernel &what, std::uint64_t items, args list,
                  const struct muster_run_options &how = run_options(),
                  struct muster_report *told = nullptr)
    {
        run(what, &items, list, how, told).value();
    }
    void for_each(const kernel &what, args list,
                  const struct muster_run_options &how = run_options(),
                  struct muster_report *told = nullptr)
    {
        run(what, nullptr, list, how, told).value();
    }
    /* The same with a status for each item; MUSTER_E_FAILED: all are done, and some have failed. */
    result<void> try_for_each_status(const kernel &what, args list, span<muster_status> each,
                                     const struct muster_run_options &how = run_options(),
                                     struct muster_report *told = nullptr)
    {
        detail::packed_args packed;
        const std::uint64_t items = each.size();
        if (result<void> done = packed.pack(list, &items); !done)
            return done;
        struct muster_error err;
        const muster_status status = muster_for_each_status(
            c_, what.get(), items, packed.list, packed.count, each.data(), &how, told, &err);
        return ended(what, status, err);
    }
    void for_each_status(const kernel &what, args list, span<muster_status> each,
                         const struct muster_run_options &how = run_options(),
                         struct muster_report *told = nullptr)
    {
        try_for_each_status(what, list, each, how, told).value();
    }
    /* One value of all items, with the same bits whatever the devices: muster_reduce. */
    template <class R>
    result<R> try_reduce(const kernel &what, args list,
                         const struct muster_run_options &how = run_options(),
                         struct muster_report *told = nullptr)
    {
        return reduced<R>(what, nullptr, list, how, told);
    }
    template <class R>
    result<R> try_reduce(const kernel &what, std::uint64_t items, args list,
                         const struct muster_run_options &how = run_options(),
                         struct muster_report *told = nullptr)
    {
        return reduced<R>(what, &items, list, how, told);
    }
    template <class R>
    R reduce(const kernel &what, args list, const struct muster_run_options &how = run_options(),
             struct muster_report *told = nullptr)
    {
        return reduced<R>(what, nullptr, list, how, told).value();
    }
    template <class R>
    R reduce(const kernel &what, std::uint64_t items, args list,
             const struct muster_run_options &how = run_options(),
             struct muster_report *told = nullptr)
    {
        return reduced<R>(what, &items, list, how, told).value();
    }

    /* A job that runs beside the program. */
    result<job> try_start(work &&what)
    {
        detail::packed_args packed;
        if (what.desc_.kernel) {
            result<void> done = packed.pack({ what.args_.data(), what.arg_count_ },
                                            what.wanted_ ? &what.desc_.items : nullptr);
            if (!done)
                return done.error();
            what.desc_.args = packed.list;
            what.desc_.arg_count = packed.count;
            what.desc_.items = packed.items;
        }
        if (what.statuses_.data()) {
            if (what.statuses_.size() < what.desc_.items)
                return error::made(MUSTER_E_INVALID,
                                   "each_status has fewer places than the job items",
                                   "give one muster_status for each item");
            what.desc_.each_status = what.statuses_.data();
        }
        what.desc_.options = what.options_ ? &*what.options_ : nullptr;
        struct muster_error err;
        muster_job *made;
        if (muster_start(c_, &what.desc_, &made, &err) != MUSTER_OK)
            return err;
        return job(made, std::move(what.calls_), what.kernel_thrown_);
    }
    job start(work &&what)
    {
        return try_start(std::move(what)).value();
    }
    /* Checked, derived and proven: muster_pipeline_create. */
    result<pipeline> try_pipeline(std::initializer_list<struct muster_buffer> buffers,
                                  std::initializer_list<stage> stages,
                                  const struct muster_pipeline_options *how = nullptr)
    {
        struct muster_error err;
        auto bodies = std::make_shared<detail::stage_bodies>();
        std::array<struct muster_stage, MUSTER_STAGES_MAX> list;
        if (stages.size() > list.size())
            return error::made(MUSTER_E_INVALID, "a pipeline has at most 32 stages");
        std::size_t count = 0;
        for (const stage &one : stages) {
            list[count++] = one.get();
            one.add_to(*bodies);
        }
        muster_pipeline *made;
        if (muster_pipeline_create(c_, buffers.begin(), buffers.size(), list.data(), count, how,
                                   &made, &err) != MUSTER_OK)
            return err;
        return pipeline(made, std::move(bodies));
    }
    pipeline make_pipeline(std::initializer_list<struct muster_buffer> buffers,
                           std::initializer_list<stage> stages,
                           const struct muster_pipeline_options *how = nullptr)
    {
        return try_pipeline(buffers, stages, how).value();
    }

    /* A task: a lambda that returns nothing or a status, after the tasks that are named. */
    template <class F, class = std::enable_if_t<std::is_invocable_v<std::decay_t<F> &>>>
    result<task> try_submit(F &&f, std::initializer_list<muster_task> after = {},
                            const task_options &how = {})
    {
        detail::task_body *body =
            new (std::nothrow) detail::task_of<std::decay_t<F>>(std::forward<F>(f));
        if (!body)
            return error::made(MUSTER_E_NO_MEMORY, "no memory for a task's lambda");
        sized<muster_task_desc> desc;
        desc.fn = detail::task_body::run_it;
        return submit_body(desc, {}, body, after, how);
    }
    template <class F, class = std::enable_if_t<std::is_invocable_v<std::decay_t<F> &>>>
    task submit(F &&f, std::initializer_list<muster_task> after = {}, const task_options &how = {})
    {
        return try_submit(std::forward<F>(f), after, how).value();
    }
    /* A task: a kernel over all items of its arrays, on one device. */
    result<task> try_submit(const kernel &what, args list,
                            std::initializer_list<muster_task> after = {},
                            const task_options &how = {})
    {
        detail::packed_args packed;
        if (result<void> done = packed.pack(list, nullptr); !done)
            return done.error();
        sized<muster_task_desc> desc;
        desc.kernel = what.get();
        desc.args = packed.list;
        desc.arg_count = packed.count;
        desc.items = packed.items;
        return submit_desc(desc, after, how, nullptr, what.thrown());
    }
    task submit(const kernel &what, args list, std::initializer_list<muster_task> after = {},
                const task_options &how = {})
    {
        return try_submit(what, list, after, how).value();
    }
    /*
     * Tasks that say what they do with data: in order with those before them that access the same. The
     * body is a lambda that is given a muster::native, for cpu and sim, or muster::bodies, or a lambda
     * without arguments for the host. It returns nothing or a status.
     */
    template <class F,
              class = std::enable_if_t<std::is_invocable_v<std::decay_t<F> &> ||
                                       std::is_invocable_v<std::decay_t<F> &, const native &>>>
    result<task> try_submit(accesses list, F &&f, std::initializer_list<muster_task> after = {},
                            const task_options &how = {})
    {
        using body_type = std::decay_t<F>;
        constexpr bool is_native = std::is_invocable_v<body_type &, const native &>;
        using body_of =
            std::conditional_t<is_native, detail::native_of<body_type>, detail::task_of<body_type>>;
        sized<muster_task_desc> desc;
        sized<muster_body> forms[MUSTER_BODIES_MAX];
        if constexpr (is_native) {
            const char *names[MUSTER_BODIES_MAX] = {};
            desc.body_count = detail::find_backends(f, names);
            for (std::size_t i = 0; i < MUSTER_BODIES_MAX; i++) {
                forms[i].backend = names[i];
                forms[i].enqueue = detail::task_body::enqueue;
            }
            desc.bodies = forms;
        } else {
            desc.fn = detail::task_body::run_it;
        }
        detail::task_body *body = new (std::nothrow) body_of(std::forward<F>(f));
        if (!body)
            return error::made(MUSTER_E_NO_MEMORY, "no memory for a task's lambda");
        return submit_body(desc, list, body, after, how);
    }
    template <class F,
              class = std::enable_if_t<std::is_invocable_v<std::decay_t<F> &> ||
                                       std::is_invocable_v<std::decay_t<F> &, const native &>>>
    task submit(accesses list, F &&f, std::initializer_list<muster_task> after = {},
                const task_options &how = {})
    {
        return try_submit(list, std::forward<F>(f), after, how).value();
    }
    /* A kernel over `items` items: its arguments are values, muster::accessed(i) and muster::pitch(i). */
    result<task> try_submit(accesses list, const kernel &what, std::uint64_t items, args values,
                            std::initializer_list<muster_task> after = {},
                            const task_options &how = {})
    {
        detail::packed_args packed;
        if (result<void> done = packed.pack(values, &items); !done)
            return done.error();
        sized<muster_task_desc> desc;
        desc.accesses = list.data();
        desc.access_count = list.size();
        desc.kernel = what.get();
        desc.args = packed.list;
        desc.arg_count = packed.count;
        desc.items = packed.items;
        return submit_desc(desc, after, how, nullptr, what.thrown());
    }
    task submit(accesses list, const kernel &what, std::uint64_t items, args values,
                std::initializer_list<muster_task> after = {}, const task_options &how = {})
    {
        return try_submit(list, what, items, values, after, how).value();
    }
    /*
     * Calls `f`, and keeps the tasks with accesses that it submits on this thread instead of running them:
     * muster_graph_begin. What submit gives in it is empty. An exception of `f` goes through.
     */
    template <class F> result<graph> try_record(F &&f)
    {
        struct muster_error err;
        muster_graph *made = nullptr;
        auto calls = std::make_unique<detail::graph_calls>(c_);
        if (muster_graph_begin(c_, &err) != MUSTER_OK)
            return err;
        detail::graph_calls::now() = calls.get();
        try {
            f();
        } catch (...) {
            detail::graph_calls::now() = nullptr;
            if (muster_graph_end(c_, &made, nullptr) == MUSTER_OK)
                muster_graph_destroy(made);
            throw;
        }
        detail::graph_calls::now() = nullptr;
        if (muster_graph_end(c_, &made, &err) != MUSTER_OK)
            return err;
        return graph(c_, made, std::move(calls));
    }
    template <class F> graph record(F &&f)
    {
        return try_record(std::forward<F>(f)).value();
    }
    /* Waits for all tasks of the runtime. */
    result<void> try_wait_all(nanoseconds timeout = forever)
    {
        return detail::call(
            [&](auto *err) { return muster_wait(c_, nullptr, 0, detail::as_ns(timeout), err); });
    }
    void wait_all(nanoseconds timeout = forever)
    {
        try_wait_all(timeout).value();
    }

    /* Totals since the runtime was opened. */
    result<counters> try_count() const
    {
        struct muster_error err;
        counters made;
        if (muster_counters(c_, &made, &err) != MUSTER_OK)
            return err;
        return made;
    }
    counters count() const
    {
        return try_count().value();
    }
    /* Gives back what is kept between jobs. */
    void trim() noexcept
    {
        muster_trim(c_);
    }

  private:
    static result<void> ended(const kernel &what, muster_status status,
                              const struct muster_error &err)
    {
        std::exception_ptr thrown = what.thrown() ? what.thrown()->take(status) : nullptr;
        if (status == MUSTER_OK)
            return {};
        return { err, std::move(thrown) };
    }
    result<void> run(const kernel &what, const std::uint64_t *items, args list,
                     const struct muster_run_options &how, struct muster_report *told)
    {
        detail::packed_args packed;
        if (result<void> done = packed.pack(list, items); !done)
            return done;
        struct muster_error err;
        const muster_status status =
            muster_for(c_, what.get(), packed.items, packed.list, packed.count, &how, told, &err);
        return ended(what, status, err);
    }
    template <class R>
    result<R> reduced(const kernel &what, const std::uint64_t *items, args list,
                      const struct muster_run_options &how, struct muster_report *told)
    {
        static_assert(std::is_trivially_copyable_v<R>, "a partial is copied byte by byte");
        detail::packed_args packed;
        if (result<void> done = packed.pack(list, items); !done)
            return done.error();
        struct muster_error err;
        R made = {};
        if (muster_reduce(c_, what.get(), packed.items, packed.list, packed.count, &made,
                          sizeof made, &how, told, &err) != MUSTER_OK)
            return err;
        return made;
    }
    result<data> data_at(const void *host, std::uint64_t bytes)
    {
        struct muster_error err;
        muster_data made;
        if (muster_data_create(c_, host, bytes, 0, &made, &err) != MUSTER_OK)
            return err;
        return data(c_, made, { bytes, 1, bytes });
    }
    /* Takes the body over. */
    result<task> submit_body(sized<muster_task_desc> &desc, accesses list, detail::task_body *body,
                             const std::initializer_list<muster_task> &after,
                             const task_options &how)
    {
        detail::graph_calls *recorded = detail::graph_calls::of(c_);
        desc.user = body;
        desc.accesses = list.data();
        desc.access_count = list.size();
        if (recorded) {
            std::unique_ptr<detail::task_body> taken(body);
            recorded->bodies.push_back(body);
            (void)taken.release();
            body->belong_to(*recorded->thrown);
            result<task> made = submit_desc(desc, after, how, nullptr, nullptr);
            if (!made)
                return made;
            made->detach();
            return task();
        }
        desc.done = detail::task_body::done;
        result<task> made = submit_desc(desc, after, how, body, nullptr);
        if (!made) {
            /* Nobody will run it: both owners are here. */
            body->release();
            body->release();
        }
        return made;
    }
    result<task> submit_desc(sized<muster_task_desc> &desc,
                             const std::initializer_list<muster_task> &after,
                             const task_options &how, detail::task_body *body,
                             detail::thrown_slot *kernel_thrown)
    {
        struct muster_error err;
        muster_task made;
        desc.after = after.begin();
        desc.after_count = after.size();
        desc.hints = how.hints;
        desc.timeout_ns = detail::as_ns(how.timeout);
        desc.is_awaited = how.is_awaited;
        desc.name = how.name;
        desc.priority = how.priority;
        if (muster_submit(c_, &desc, 1, &made, &err) != MUSTER_OK)
            return err;
        return task(c_, made, body, kernel_thrown);
    }

    muster_runtime *c_ = nullptr;
};

} // namespace muster

#endif
