/*
 * Views of contiguous items, since std::span is C++20, and structs with their `size` set. Included by
 * muster.hpp.
 */
#ifndef MUSTER_CPP_SPAN_HPP
#define MUSTER_CPP_SPAN_HPP

#include <cstddef>
#include <iterator>
#include <type_traits>

namespace muster
{

/* `size` items from `data` on, borrowed. Made of vectors, arrays, std::span, or a pointer and a size. */
template <class T> class span
{
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <class C,
              class = std::enable_if_t<std::is_convertible_v<
                  std::remove_pointer_t<decltype(std::data(std::declval<C &>()))> (*)[], T (*)[]>>>
    constexpr span(C &&items) noexcept : data_(std::data(items)), size_(std::size(items))
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t index) const noexcept
    {
        return data_[index];
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* A struct of the C interface, zero but for its `size`. */
template <class S> struct sized : S {
    sized() noexcept : S()
    {
        this->size = sizeof(S);
    }
};

} // namespace muster

#endif
