/** What a call of the CUDA or HIP runtime or driver does, by its name. */
import { Kind } from '../timeline/timeline.ts'

const launch = /Launch\w*Kernel|LaunchKernel|GraphLaunch|cuLaunch|LaunchGrid|Memcpy\w*Async|Memset/i
const synchronize = /Synchronize|Memcpy|DeviceSync/i

/** A copy that does not say it is asynchronous blocks the host. */
export function hostCallKind(name: string): Kind {
  if (launch.test(name)) return Kind.launch
  if (synchronize.test(name)) return Kind.synchronize
  return Kind.runtime
}
