/** Classifies a call of the CUDA or HIP runtime or driver by its name. */
import { Kind } from '../timeline/timeline.ts'

const launch = /Launch\w*Kernel|LaunchKernel|GraphLaunch|cuLaunch|LaunchGrid|Memcpy\w*Async|Memset/i
const synchronize = /Synchronize|Memcpy|DeviceSync/i

/** The kind of a host call. A copy whose name lacks `Async` blocks the host, so it counts as a synchronisation. */
export function hostCallKind(name: string): Kind {
  if (launch.test(name)) return Kind.launch
  if (synchronize.test(name)) return Kind.synchronize
  return Kind.runtime
}
