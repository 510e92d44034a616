/**
 * True if external services of tests (a database server, a browser) are required: a test that would be skipped then
 * fails.
 */
export const servicesRequired =
  (process.env.CI ?? '') !== '' || (process.env.SIBYL_TEST_REQUIRE_SERVICES ?? '') !== ''
