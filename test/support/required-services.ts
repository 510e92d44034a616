/**
 * Whether what a test needs from outside (a database server, a browser) must be there: then a test that
 * would be skipped fails.
 */
export const servicesRequired =
  (process.env.CI ?? '') !== '' || (process.env.SIBYL_TEST_REQUIRE_SERVICES ?? '') !== ''
