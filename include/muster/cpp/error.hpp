/*
 * Failures as exceptions and as values. Included by muster.hpp.
 */
#ifndef MUSTER_CPP_ERROR_HPP
#define MUSTER_CPP_ERROR_HPP

#include <cstdio>
#include <exception>
#include <muster/cpp/c.hpp>
#include <optional>
#include <utility>
#include <variant>

namespace muster
{

/* A failure of Muster's. what() is the text and, where one is known, the fix on a second line. */
class error : public std::exception
{
  public:
    explicit error(const struct muster_error &from) noexcept : from_(from)
    {
        const char *text = from_.text[0] ? from_.text : muster_status_message(from_.status);
        std::snprintf(what_, sizeof what_, "%s%s%s", text, from_.fix[0] ? "\n" : "", from_.fix);
    }
    /* For callbacks: fails with this status, and with these words for the caller that waits. */
    explicit error(muster_status status, const char *text = "", const char *fix = "") noexcept
        : error(made(status, text, fix))
    {
    }
    const char *what() const noexcept override
    {
        return what_;
    }
    muster_status status() const noexcept
    {
        return from_.status;
    }
    /* "MUSTER_E_NOT_FOUND" and so on. */
    const char *name() const noexcept
    {
        return muster_status_name(from_.status);
    }
    /* What was asked and what there was. */
    const char *text() const noexcept
    {
        return from_.text;
    }
    /* What would help, "" if nothing is known to. */
    const char *fix() const noexcept
    {
        return from_.fix;
    }
    /* The device concerned, "" if none. */
    const char *device() const noexcept
    {
        return from_.device;
    }
    /* What the vendor's driver returned, 0 if none was asked. */
    int driver_code() const noexcept
    {
        return from_.driver_code;
    }
    enum muster_discard discards() const noexcept
    {
        return muster_status_discards(from_.status);
    }
    const struct muster_error &get() const noexcept
    {
        return from_;
    }

    static struct muster_error made(muster_status status, const char *text,
                                    const char *fix = "") noexcept
    {
        struct muster_error err = {};
        err.size = sizeof err;
        err.status = status;
        std::snprintf(err.text, sizeof err.text, "%s", text);
        std::snprintf(err.fix, sizeof err.fix, "%s", fix);
        return err;
    }

  private:
    struct muster_error from_;
    char what_[sizeof from_.text + sizeof from_.fix];
};

/* Why something failed: Muster's words, and the exception of a callback if that was why. */
struct failure {
    struct muster_error error;
    std::exception_ptr thrown;
    [[noreturn]] void raise() const
    {
        if (thrown)
            std::rethrow_exception(thrown);
        throw muster::error(error);
    }
};

/* A value, or why there is none. */
template <class T> class [[nodiscard]] result
{
  public:
    result(T &&value) : either_(std::in_place_index<0>, std::move(value))
    {
    }
    result(const struct muster_error &error, std::exception_ptr thrown = nullptr)
        : either_(std::in_place_index<1>, failure{ error, std::move(thrown) })
    {
    }
    explicit operator bool() const noexcept
    {
        return either_.index() == 0;
    }
    muster_status status() const noexcept
    {
        return *this ? static_cast<muster_status>(MUSTER_OK) : error().status;
    }
    /* The value, once; throws what a plain call would throw if there is none. */
    T value()
    {
        if (!*this)
            std::get<1>(either_).raise();
        return std::move(std::get<0>(either_));
    }
    /* Only if there is a value. */
    T &operator*() noexcept
    {
        return *std::get_if<0>(&either_);
    }
    T *operator->() noexcept
    {
        return std::get_if<0>(&either_);
    }
    /* Only if there is none. */
    const struct muster_error &error() const noexcept
    {
        return std::get_if<1>(&either_)->error;
    }
    /* The exception that left a callback, NULL if that was not the reason. Only if there is no value. */
    std::exception_ptr thrown() const noexcept
    {
        return std::get_if<1>(&either_)->thrown;
    }

  private:
    std::variant<T, failure> either_;
};

template <> class [[nodiscard]] result<void>
{
  public:
    result() = default;
    result(const struct muster_error &error, std::exception_ptr thrown = nullptr)
        : failure_(failure{ error, std::move(thrown) })
    {
    }
    explicit operator bool() const noexcept
    {
        return !failure_;
    }
    muster_status status() const noexcept
    {
        return failure_ ? failure_->error.status : static_cast<muster_status>(MUSTER_OK);
    }
    void value() const
    {
        if (failure_)
            failure_->raise();
    }
    const struct muster_error &error() const noexcept
    {
        return failure_->error;
    }
    std::exception_ptr thrown() const noexcept
    {
        return failure_->thrown;
    }

  private:
    std::optional<failure> failure_;
};

namespace detail
{
/* A call that gives nothing but a status: call([&](muster_error *err) { return muster_...(err); }). */
template <class F> result<void> call(F &&f)
{
    struct muster_error err;
    if (f(&err) != MUSTER_OK)
        return err;
    return {};
}
} // namespace detail

} // namespace muster

#endif
