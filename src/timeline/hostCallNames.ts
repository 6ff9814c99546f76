/** Classifies calls of the CUDA and HIP runtime and driver by their names. */

import { isStreamWait } from './timeline.ts'

const allocation =
  /^_*(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister)|^_*(cu|hip)Mem(Alloc|Free|Create|Map|Unmap|Release|AddressReserve|SetAccess|HostAlloc|HostRegister)/i
const moduleLoad = /Module(Load|Unload)|Library(Load|Unload|GetKernel)|Link(Create|Complete|Add)/i

/** True if the call allocates, frees or maps memory of the device, or page-locked memory of the host. */
export const isAllocation = (name: string): boolean => allocation.test(name)

/**
 * True if the name of a call shows what the host did, so that the call is kept although it is inside an operator and
 * enqueues nothing.
 */
export const isTelling = (name: string): boolean =>
  isStreamWait(name) || isAllocation(name) || isModuleLoad(name)

/** True if the call loads code onto the device. */
export const isModuleLoad = (name: string): boolean => moduleLoad.test(name)
