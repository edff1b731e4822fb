/*
 * Arguments of kernels, typed: muster::in(x) knows how many items x has and what they are. Included by
 * muster.hpp.
 */
#ifndef MUSTER_CPP_ARGS_HPP
#define MUSTER_CPP_ARGS_HPP

#include <cinttypes>
#include <cstring>
#include <initializer_list>
#include <muster/cpp/error.hpp>
#include <muster/cpp/span.hpp>

namespace muster
{

class data;
class block;

/* How a job touches one argument of its kernel (struct muster_arg). */
class arg
{
  public:
    /* Not an array, or one that does not say how many items it has. */
    static constexpr std::uint64_t any_number = UINT64_MAX;
    /* Values up to this size are copied at once; a larger one is borrowed until the job is started. */
    static constexpr std::size_t value_max = 32;

    /* No argument yet. */
    arg() noexcept : arg(muster_arg())
    {
    }
    explicit arg(const struct muster_arg &from, std::uint64_t items = any_number) noexcept
        : c_(from), items_(items)
    {
    }
    template <class T> static arg of_value(const T &value) noexcept
    {
        arg made(muster_arg_array(MUSTER_ARG_VALUE, &value, nullptr, sizeof value,
                                  muster_element_at(&value)));
        if constexpr (sizeof value <= value_max) {
            std::memcpy(made.value_, &value, sizeof value);
            made.is_here_ = true;
        }
        return made;
    }
    /* Of an array or a source: this many items before a unit's first and after its last, too. */
    arg halo(std::uint64_t items, enum muster_border border = MUSTER_BORDER_ZERO) const noexcept
    {
        arg made = *this;
        made.c_ = muster_arg_with_halo(c_, items, border);
        return made;
    }
    /* Of device memory: from this byte on. */
    arg at(std::uint64_t offset) const noexcept
    {
        arg made = *this;
        made.c_.offset = offset;
        return made;
    }
    std::uint64_t items() const noexcept
    {
        return items_;
    }
    /* Points into this object if it is a small value. */
    struct muster_arg get() const noexcept
    {
        struct muster_arg made = c_;
        if (is_here_)
            made.in = value_;
        return made;
    }

  private:
    struct muster_arg c_;
    std::uint64_t items_;
    bool is_here_ = false;
    alignas(16) unsigned char value_[value_max] = {};
};

namespace detail
{
template <class P> arg array(enum muster_arg_kind kind, P *data, std::size_t count) noexcept
{
    static_assert(std::is_trivially_copyable_v<P>, "items are copied between devices byte by byte");
    void *out = nullptr;
    if constexpr (!std::is_const_v<P>)
        out = kind == MUSTER_ARG_IN ? nullptr : data;
    return arg(muster_arg_array(kind, kind == MUSTER_ARG_OUT ? nullptr : data, out, sizeof(P),
                                muster_element_at(data)),
               count);
}
template <class C> using item_of = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;
template <class C> constexpr bool is_writable = !std::is_const_v<item_of<C>>;
} // namespace detail

/* An array that is read; also in(pointer, size). */
template <class C> auto in(const C &items) noexcept -> decltype(std::data(items), arg::of_value(0))
{
    return detail::array(MUSTER_ARG_IN, std::data(items), std::size(items));
}
template <class T> arg in(const T *items, std::size_t size) noexcept
{
    return detail::array(MUSTER_ARG_IN, items, size);
}
/* The same, with items around those of a unit: MUSTER_IN_BORDER. */
template <class C>
arg in_halo(const C &items, std::uint64_t around,
            enum muster_border border = MUSTER_BORDER_ZERO) noexcept
{
    return in(items).halo(around, border);
}
/* An array that is written. */
template <class C> auto out(C &&items) noexcept -> decltype(std::data(items), arg::of_value(0))
{
    static_assert(detail::is_writable<C>, "muster::out of items that are const");
    return detail::array(MUSTER_ARG_OUT, std::data(items), std::size(items));
}
template <class T> arg out(T *items, std::size_t size) noexcept
{
    static_assert(!std::is_const_v<T>, "muster::out of items that are const");
    return detail::array(MUSTER_ARG_OUT, items, size);
}
/* An output that only the sink gets. */
template <class T> arg out_to_sink() noexcept
{
    return arg(muster_arg_array(MUSTER_ARG_OUT, nullptr, nullptr, sizeof(T),
                                muster_element_at(static_cast<T *>(nullptr))));
}
/* An array of which each item is read and then written in its place. */
template <class C> auto inout(C &&items) noexcept -> decltype(std::data(items), arg::of_value(0))
{
    static_assert(detail::is_writable<C>, "muster::inout of items that are const");
    return detail::array(MUSTER_ARG_INOUT, std::data(items), std::size(items));
}
template <class T> arg inout(T *items, std::size_t size) noexcept
{
    static_assert(!std::is_const_v<T>, "muster::inout of items that are const");
    return detail::array(MUSTER_ARG_INOUT, items, size);
}
/* A scalar; a large one must be a variable that lives until the call has started its work. */
template <class T> arg value(T &&scalar) noexcept
{
    using V = std::remove_cv_t<std::remove_reference_t<T>>;
    static_assert(std::is_trivially_copyable_v<V> && !std::is_pointer_v<V>,
                  "a value is copied to devices byte by byte");
    static_assert(sizeof(V) <= arg::value_max || std::is_lvalue_reference_v<T>,
                  "a value this large is borrowed, so it must be a variable");
    return arg::of_value<V>(scalar);
}
/* The number of the unit's first item. */
inline arg first() noexcept
{
    return arg(muster_arg_of(MUSTER_ARG_FIRST));
}
/* What the job's source supplies, items of type T. */
template <class T> arg supplied() noexcept
{
    return arg(muster_arg_array(MUSTER_ARG_SOURCE, nullptr, nullptr, sizeof(T),
                                muster_element_at(static_cast<T *>(nullptr))));
}
/* Items are cells, row after row: MUSTER_GRID, MUSTER_GRID_3D. */
inline arg grid(std::uint32_t width, std::uint32_t height) noexcept
{
    return arg(muster_arg_cells(MUSTER_ARG_GRID, width, height, 0),
               std::uint64_t{ width } * height);
}
inline arg grid(std::uint32_t width, std::uint32_t height, std::uint32_t depth) noexcept
{
    /* Of a grid of more than 2^64 cells Muster says that it is too large. */
    const std::uint64_t plane = std::uint64_t{ width } * height;
    return arg(muster_arg_cells(MUSTER_ARG_GRID, width, height, depth),
               depth && plane > UINT64_MAX / depth ? arg::any_number : plane * depth);
}
/* One picture after the other: MUSTER_PICTURES. */
inline arg pictures(std::uint32_t width, std::uint32_t height) noexcept
{
    return arg(muster_arg_cells(MUSTER_ARG_PICTURES, width, height, 0));
}
/* Data, whole and resident, only read. */
inline arg all(muster_data handle) noexcept
{
    return arg(muster_arg_data(handle));
}
arg all(const data &data) noexcept;
/* Items of type T in a block of device memory, which nothing is copied from or to. */
template <class T> arg device_in(muster_block block) noexcept
{
    return arg(muster_arg_block(MUSTER_ARG_DEVICE_IN, block, sizeof(T),
                                muster_element_at(static_cast<T *>(nullptr))));
}
template <class T> arg device_out(muster_block block) noexcept
{
    return arg(muster_arg_block(MUSTER_ARG_DEVICE_OUT, block, sizeof(T),
                                muster_element_at(static_cast<T *>(nullptr))));
}
template <class T> arg device_inout(muster_block block) noexcept
{
    return arg(muster_arg_block(MUSTER_ARG_DEVICE_INOUT, block, sizeof(T),
                                muster_element_at(static_cast<T *>(nullptr))));
}

/* Arguments for one call: a list in braces, or any array of them. */
class args : public span<const arg>
{
  public:
    args(std::initializer_list<arg> list) noexcept : span(list.begin(), list.size())
    {
    }
    template <class C, class = std::enable_if_t<std::is_convertible_v<C &&, span<const arg>>>>
    args(C &&list) noexcept : span(std::forward<C>(list))
    {
    }
};

namespace detail
{
/*
 * Arguments as C takes them, valid while `from` is. Arrays are checked against the number of items,
 * which they say themselves if the caller does not.
 */
struct packed_args {
    struct muster_arg list[MUSTER_ARGS_MAX];
    std::size_t count = 0;
    std::uint64_t items = 0;

    result<void> pack(span<const arg> from, const std::uint64_t *wanted)
    {
        char text[160];
        if (from.size() > MUSTER_ARGS_MAX) {
            std::snprintf(text, sizeof text, "%zu arguments; a kernel has at most %d", from.size(),
                          MUSTER_ARGS_MAX);
            return error::made(MUSTER_E_INVALID, text);
        }
        std::size_t sayer = from.size();
        for (std::size_t i = 0; i < from.size() && !wanted; i++)
            if (from[i].items() != arg::any_number && sayer == from.size())
                sayer = i;
        if (!wanted && sayer == from.size())
            return error::made(MUSTER_E_INVALID, "no argument says how many items there are",
                               "give the number of items before the arguments");
        items = wanted ? *wanted : from[sayer].items();
        for (std::size_t i = 0; i < from.size(); i++) {
            const std::uint64_t has = from[i].items();
            if (has == arg::any_number || items == MUSTER_ITEMS_UNKNOWN ||
                (wanted ? has >= items : has == items))
                continue;
            if (wanted)
                std::snprintf(text, sizeof text,
                              "argument %zu has %" PRIu64 " items, the call is for %" PRIu64, i,
                              has, items);
            else
                std::snprintf(text, sizeof text,
                              "argument %zu has %" PRIu64 " items, argument %zu has %" PRIu64, i,
                              has, sayer, items);
            return error::made(MUSTER_E_INVALID, text,
                               wanted ? "give arrays of at least that many items"
                                      : "give the number of items before the arguments");
        }
        for (const arg &one : from)
            list[count++] = one.get();
        return {};
    }
};
} // namespace detail

} // namespace muster

#endif
