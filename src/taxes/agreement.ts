/**
 * The largest difference between two clocks, in nanoseconds, that is not corrected. The end times of one collective on
 * two ranks also scatter by about 10 microseconds.
 */
export const AGREEMENT = 10_000
