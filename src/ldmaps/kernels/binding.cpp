// Arguments of Python, and what is wrong with them.
#include "binding.h"

#include <cstring>

namespace ldmaps {
namespace {

char kind_of_format(const char* format) {
    if (format == nullptr) return 'u';
    if (*format == '@' || *format == '=') ++format;
    if (format[0] == '\0' || format[1] != '\0') return 'x';
    if (*format == '?') return '?';
    if (std::strchr("fd", *format)) return 'f';
    if (std::strchr("bhilqn", *format)) return 'i';
    return std::strchr("BHILQN", *format) ? 'u' : 'x';
}

std::string described(char kind, Index bytes, int dimensions) {
    std::string text = "elements of a type that no kernel takes";
    if (kind == '?') text = "bool";
    if (kind == 'f') text = "float" + std::to_string(8 * bytes);
    if (kind == 'i') text = "int" + std::to_string(8 * bytes);
    if (kind == 'u') text = "uint" + std::to_string(8 * bytes);
    if (dimensions == 1) text += " with 1 dimension";
    if (dimensions > 1) text += " with " + std::to_string(dimensions) + " dimensions";
    return text;
}

// Say what is wrong with an argument that does not fit.
std::string fault(const char* name, const Wanted& wanted, nb::handle object) {
    const bool is_array = wanted.dimensions > 0;
    std::string got = nb::str(object.type().attr("__name__")).c_str();
    Py_buffer buffer;
    if (is_array && PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_STRIDES | PyBUF_FORMAT) == 0) {
        got = described(kind_of_format(buffer.format), buffer.itemsize, buffer.ndim);
        if (!PyBuffer_IsContiguous(&buffer, 'C')) got += ", not contiguous";
        if (buffer.readonly && wanted.is_written) got += ", read-only";
        PyBuffer_Release(&buffer);
    }
    PyErr_Clear();
    return std::string(name) + " must be a " + (is_array ? "C-contiguous array of " : "number of type ") +
           described(wanted.kind, wanted.bytes, wanted.dimensions) +
           (wanted.is_written ? " that can be written to" : "") + ", got " + got;
}

}  // namespace

bool Given::fits(nb::handle object, const Wanted& wanted) {
    if (wanted.dimensions > 0) {
        if (!is_held_) is_held_ = PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;
        if (is_held_) {
            return buffer_.ndim == wanted.dimensions && buffer_.itemsize == wanted.bytes &&
                   kind_of_format(buffer_.format) == wanted.kind && !(wanted.is_written && buffer_.readonly);
        }
    } else if (wanted.kind == '?') {
        whole_ = PyObject_IsTrue(object.ptr());
    } else if (wanted.kind == 'f') {
        real_ = PyFloat_AsDouble(object.ptr());
    } else {
        whole_ = PyNumber_AsSsize_t(object.ptr(), PyExc_OverflowError);
    }
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

nb::object call_fitting(const std::vector<Form>& forms, const char* const* names, const nb::handle* given,
                        std::size_t n_arguments) {
    Given held[MOST];
    std::size_t most = 0;
    const Form* nearest = nullptr;
    for (const Form& form : forms) {
        std::size_t taken = 0;
        while (taken < n_arguments && held[taken].fits(given[taken], form.wanted[taken])) ++taken;
        if (taken == n_arguments) return form.call(form.kernel, held);
        if (nearest == nullptr || taken > most) most = taken, nearest = &form;
    }
    throw nb::type_error(fault(names[most], nearest->wanted[most], given[most]).c_str());
}

}  // namespace ldmaps
