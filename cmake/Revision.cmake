# The git revision for `siamese --version`, renewed at every build, rewritten only when it changes.
add_custom_target(siamese_revision
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DOUT=${CMAKE_BINARY_DIR}/generated/revision.h"
          -P "${CMAKE_SOURCE_DIR}/cmake/WriteRevision.cmake"
  BYPRODUCTS "${CMAKE_BINARY_DIR}/generated/revision.h")
add_dependencies(siamese_core siamese_revision)
target_include_directories(siamese_core PRIVATE "${CMAKE_BINARY_DIR}/generated")
