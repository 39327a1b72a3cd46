include(CMakePackageConfigHelpers)

install(TARGETS mainstem EXPORT mainstemTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET mainstem_cli)
  install(TARGETS mainstem_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/mainstem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT mainstemTargets NAMESPACE mainstem::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mainstem)
configure_package_config_file(cmake/mainstemConfig.cmake.in mainstemConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mainstem)
write_basic_package_version_file(mainstemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mainstemConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/mainstemConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mainstem)
