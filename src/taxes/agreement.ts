/**
 * The largest difference between two clocks, in nanoseconds, that is not corrected. The end times of one collective
 * scatter by as much.
 */
export const AGREEMENT = 10_000
