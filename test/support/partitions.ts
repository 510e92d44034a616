/** Of the log of an exchange to which a test gives no number of its own. */
export const TEST_PARTITIONS = 3
