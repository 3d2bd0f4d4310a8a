execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(revision "unknown")
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#define SIAMESE_REVISION \"${revision}\"\n")
