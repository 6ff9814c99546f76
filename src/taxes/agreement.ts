/**
 * The largest difference between two clocks, in nanoseconds, that is not corrected. Even with exact clocks, the end
 * times of one collective on two ranks differ by about 10 microseconds.
 */
export const AGREEMENT = 10_000
