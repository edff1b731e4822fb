/*
 * Where lambdas are kept while Muster may call them, and what becomes of their exceptions. Included by
 * muster.hpp.
 */
#ifndef MUSTER_CPP_CALLBACK_HPP
#define MUSTER_CPP_CALLBACK_HPP

#include <memory>
#include <muster/cpp/error.hpp>
#include <mutex>
#include <new>
#include <type_traits>

namespace muster::detail
{

/* The status that stands for the exception that is being handled. */
inline muster_status status_of_exception() noexcept
{
    try {
        throw;
    } catch (const error &caught) {
        return caught.status() < 0 ? caught.status() : static_cast<muster_status>(MUSTER_E_FAILED);
    } catch (const std::bad_alloc &) {
        return MUSTER_E_NO_MEMORY;
    } catch (...) {
        return MUSTER_E_FAILED;
    }
}

/* Calls a callback that returns nothing or a status. */
template <class F, class... A> muster_status call_for_status(F &f, A &&...args)
{
    using R = std::invoke_result_t<F &, A...>;
    static_assert(std::is_void_v<R> || std::is_convertible_v<R, muster_status>,
                  "a callback returns nothing or a muster_status");
    if constexpr (std::is_void_v<R>) {
        f(std::forward<A>(args)...);
        return MUSTER_OK;
    } else {
        return f(std::forward<A>(args)...);
    }
}

/* The first exception of callbacks that may run on several threads. */
class thrown_slot
{
  public:
    /* Within a catch (...). */
    muster_status keep() noexcept
    {
        const muster_status status = status_of_exception();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!thrown_) {
            thrown_ = std::current_exception();
            status_ = status;
        }
        return status;
    }
    /* The exception, if work that ended with this status may have ended so because of it. */
    std::exception_ptr take(muster_status status) noexcept
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::exception_ptr taken;
        std::swap(taken, thrown_);
        return status == status_ ? taken : nullptr;
    }

  private:
    std::mutex mutex_;
    std::exception_ptr thrown_;
    muster_status status_ = MUSTER_OK;
};

/* As std::function, but of lambdas that can only be moved, too. */
template <class S> class function;
template <class R, class... A> class function<R(A...)>
{
  public:
    function() = default;
    template <class F>
    explicit function(F &&f) : kept_(std::make_unique<of<std::decay_t<F>>>(std::forward<F>(f)))
    {
    }
    R operator()(A... args) const
    {
        return kept_->call(args...);
    }
    explicit operator bool() const noexcept
    {
        return kept_ != nullptr;
    }

  private:
    struct base {
        virtual ~base() = default;
        virtual R call(A... args) = 0;
    };
    template <class F> struct of final : base {
        explicit of(const F &from) : f(from)
        {
        }
        explicit of(F &&from) : f(std::move(from))
        {
        }
        R call(A... args) override
        {
            return f(args...);
        }
        F f;
    };
    std::unique_ptr<base> kept_;
};

} // namespace muster::detail

#endif
