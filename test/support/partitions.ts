/** Number of log partitions of an exchange, unless a test sets another. */
export const TEST_PARTITIONS = 3
