// How libjpeg-turbo's errors come back: by a callback that must not return. It jumps back into `guarded` (formats.h),
// which throws. Between the two only C code and lambdas without destructors are on the stack.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>

// In this order: each needs the one above and does not include it.
#include <jpeglib.h>

#include <jerror.h>

namespace siamese::jpeg {

struct Errors : jpeg_error_mgr {
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] inline void stop(j_common_ptr info) {
  auto& errors = *static_cast<Errors*>(info->err);
  errors.format_message(info, errors.message);
  std::longjmp(errors.jump, 1);
}

/// libjpeg goes on after a warning and fills what it lacks with grey. These alone leave the picture whole: surplus
/// bytes before a marker (cameras pad with them), odd versions and colour profiles.
inline bool harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC;
}

inline void on_message(j_common_ptr info, int level) {
  if (level < 0 && !harmless(info->err->msg_code)) stop(info);
}

inline void listen(Errors& errors) {
  jpeg_std_error(&errors);
  errors.error_exit = stop;
  errors.emit_message = on_message;
  errors.output_message = [](j_common_ptr) {};
}

}  // namespace siamese::jpeg
