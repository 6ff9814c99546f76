/**
 * The first bytes of the trace formats other than PyTorch's. The first bytes of a file identify its format before the
 * format's reader is loaded.
 */

export const SQLITE_MAGIC = 'SQLite format 3\0'

/** The first key in the JSON of rocprofv3. */
export const ROCPROF_KEY = 'rocprofiler-sdk-tool'
