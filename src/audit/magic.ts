/** How files begin that are not PyTorch's: by these a format is told before its reader is loaded. */

export const SQLITE_MAGIC = 'SQLite format 3\0'

/** The first key of rocprofv3's JSON. */
export const ROCPROF_KEY = 'rocprofiler-sdk-tool'
