/** Reads the workers' slots after an abort and describes what each worker was doing. */
import { doing } from '../../world/stops.ts'
import type { StoppedWorker } from '../../world/world.ts'
import { faultCode, slot as slotOf, waitKind, workerState, type Fault } from './abi.ts'
import type { Launched, Worker } from './queue.ts'

const faults: Readonly<Record<Fault, string>> = {
  none: '',
  divisionByZero: 'divides by zero',
  badStep: 'runs a loop whose step is not positive',
  badRank: 'addresses a rank that does not exist',
}

const faultOf = (code: number): Fault | undefined =>
  (Object.keys(faultCode) as Fault[]).find((name) => name !== 'none' && faultCode[name] === code)

/** Formats a row-major element number as an index per axis. */
function position(index: number, shape: readonly number[]): string {
  if (shape.length === 0) return ''
  const at: number[] = []
  let rest = index
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    at.unshift(rest % shape[axis])
    rest = Math.floor(rest / shape[axis])
  }
  return `[${at.join(', ')}]`
}

/** The workers that were running a kernel: first those that failed, then those that were waiting, then the rest. */
export function stoppedWorkers(words: Int32Array, workers: Iterable<Worker>): StoppedWorker[] {
  const found: { readonly worker: StoppedWorker; readonly urgency: number }[] = []
  for (const worker of workers) {
    const { queue, slot, failure } = worker
    const read = (field: number): number => Atomics.load(words, (slot + field) >>> 2)
    const running = read(slotOf.state) === workerState.running
    const launched = queue.current
    if (!launched?.executable || (!running && failure === undefined)) continue
    const fault = faultOf(read(slotOf.fault))
    const wait = read(slotOf.wait)
    const told = failure === undefined && (fault !== undefined || wait !== waitKind.none)
    const site = told ? launched.executable.lowered.sites[read(slotOf.site)] : undefined
    found.push({
      urgency: failure !== undefined || fault ? 0 : wait !== waitKind.none ? 1 : 2,
      worker: {
        rank: queue.rank,
        stream: queue.stream,
        kernel: launched.kernel,
        program: read(slotOf.program),
        site: site?.toString(),
        ...(failure !== undefined
          ? { what: `failed: ${failure.split('\n')[0]}` }
          : fault
            ? { what: faults[fault] }
            : waiting(read, wait, launched)),
      },
    })
  }
  return found.sort((a, b) => a.urgency - b.urgency).map(({ worker }) => worker)
}

function waiting(
  read: (field: number) => number,
  kind: number,
  launched: Launched,
): Pick<StoppedWorker, 'what' | 'flag'> {
  switch (kind) {
    case waitKind.flag: {
      const param = launched.executable!.lowered.params[read(slotOf.param)]
      const flags = param === undefined ? undefined : launched.flags[param]
      return doing.waitForFlag({
        name: `${flags?.name ?? param ?? 'a flag'}${position(read(slotOf.index), flags?.shape ?? [])}`,
        rank: read(slotOf.owner),
        value: read(slotOf.value),
        wanted: read(slotOf.wanted),
      })
    }
    case waitKind.loop:
      return doing.loop
    case waitKind.barrier:
      return doing.barrier
    case waitKind.roles:
      return doing.roles
    default:
      return doing.computing
  }
}
