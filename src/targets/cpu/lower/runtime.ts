/**
 * Generates the runtime functions that kernel code calls to wait, signal, abort and record. Each runtime action is a
 * separate function, so that the code around a wait stays small.
 *
 * A waiting thread polls, then sleeps on the word for a limited time and polls again. A thread that changes a word
 * wakes the threads that sleep on it. No wake-up is lost: a sleeper increments the sleeper count before its last poll,
 * and a signaller reads the count after its store. Sleepers and signallers use sequentially consistent order, so at
 * least one of the two observes the other.
 */
import { control, event, faultCode, slot as slotBlock, stopReason, waitKind, type Fault } from '../abi.ts'
import {
  add,
  address,
  and,
  binary,
  codeFunction,
  compare,
  constant,
  convert,
  i32,
  sub,
  unary,
  type Operand,
  type Writer,
} from '../build.ts'
import type { CodeFunction, Local } from '../code.ts'

/** The longest sleep of a wait before it polls again, in nanoseconds. */
const nap = 20_000_000
/**
 * The longest sleep, in nanoseconds, of a wait for some of an epoch's signals. The sleep is short, because a signal by
 * another kernel wakes such a wait only if that signal is the last of its epoch.
 */
const shortNap = 200_000
/**
 * The time in nanoseconds for which a polling loop yields its core, and the number of iterations between two such
 * pauses.
 */
const rest = 50_000
const restEvery = 256

export interface Runtime {
  /**
   * The function (memory, flag, wanted, slot, site, param, owner, index) waits for a flag. All wait functions return 0,
   * or -1 after an abort.
   */
  readonly waitFlag: CodeFunction
  /** The function that waits for some of an epoch's signals (`atLeast`), with the same arguments. */
  readonly waitCount: CodeFunction
  /** The function (memory, word, arrivals, phase, slot, site) waits until the phase of a barrier is complete. */
  readonly waitBarrier: CodeFunction
  /** The function (memory, word, wanted, slot, site, kind) waits until the word has reached `wanted`. */
  readonly waitWord: CodeFunction
  /**
   * The function (memory, iterations, slot, site) is called by long-running loops to yield the core from time to time.
   */
  readonly restInLoop: CodeFunction
  /** The function (memory, word) wakes the threads that sleep on the word. */
  readonly wakeSleepers: CodeFunction
  /** The function (memory, slot, fault, site) reports a fault and aborts the world. */
  readonly raiseFault: CodeFunction
  /** The function (slot, kind, site, start, end, who, what) appends an event to the worker's buffer. */
  readonly recordEvent: CodeFunction
}

const at = (memory: Operand, word: number) => address(memory, 0, 1, word)

export function isStopped(writer: Writer, memory: Operand): Local {
  return writer.atomicLoad('abort', 'i32', at(memory, control.abort), 'relaxed')
}

/**
 * Polls until `poll` reports that the wait is over. If the first poll fails, the function `note` notes in the worker's
 * slot for which word the worker waits. The waiting thread sleeps on `word` while it holds the value that `poll` saw.
 */
function waitLoop(
  writer: Writer,
  memory: Local,
  slot: Local,
  word: Local,
  poll: () => { readonly ready: Operand; readonly seen: Local },
  note: (seen: Local) => void,
  longest = nap,
): void {
  const first = poll()
  writer.if(first.ready, () => writer.return(i32(0)))
  note(first.seen)
  const spins = writer.load('spins', 'i32', 'i32', memory, control.spins)
  const leave = (): void => {
    writer.store('i32', slot, i32(waitKind.none), slotBlock.wait)
    writer.return(i32(0))
  }
  const stopped = (): void => {
    writer.if(compare('ne', isStopped(writer, memory), i32(0)), () => writer.return(i32(-1)))
  }
  writer.loop(() => {
    writer.for('spin', 0, spins, 1, (spin) => {
      writer.emit({ kind: 'pause' })
      const { ready } = poll()
      writer.if(ready, leave)
      writer.if(unary('eqz', and(spin, i32(63))), stopped)
    })
    stopped()
    writer.atomic('add', at(memory, control.sleepers), i32(1), 'seqCst')
    writer.emit({ kind: 'fence', order: 'seqCst' })
    const last = poll()
    writer.store('i32', slot, last.seen, slotBlock.value)
    writer.if(unary('eqz', last.ready), () =>
      writer.emit({
        kind: 'sleep',
        at: { kind: 'local', type: 'ptr', local: word },
        expected: { kind: 'local', type: 'i32', local: last.seen },
        nanoseconds: constant('f64', longest),
      }),
    )
    writer.atomic('sub', at(memory, control.sleepers), i32(1), 'seqCst')
  })
}

function noteWait(
  writer: Writer,
  slot: Local,
  site: Operand,
  fields: readonly (readonly [number, Operand])[],
): void {
  writer.store('i32', slot, site, slotBlock.site)
  for (const [offset, value] of fields) writer.store('i32', slot, value, offset)
}

export function makeRuntime(): Runtime {
  const awaiting = (name: string, longest: number): CodeFunction =>
    codeFunction(
      name,
      [
        ['memory', 'ptr'],
        ['flag', 'ptr'],
        ['wanted', 'i32'],
        ['slot', 'ptr'],
        ['site', 'i32'],
        ['param', 'i32'],
        ['owner', 'i32'],
        ['index', 'i32'],
      ],
      (writer, memory, flag, wanted, slot, site, param, owner, index) => {
        const poll = () => {
          const seen = writer.atomicLoad('seen', 'i32', flag, 'acquire')
          return { seen, ready: writer.let('ready', compare('ge', sub(seen, wanted), i32(0))) }
        }
        const note = (seen: Local): void =>
          noteWait(writer, slot, site, [
            [slotBlock.param, param],
            [slotBlock.owner, owner],
            [slotBlock.index, index],
            [slotBlock.wanted, wanted],
            [slotBlock.value, seen],
            [slotBlock.wait, i32(waitKind.flag)],
          ])
        waitLoop(writer, memory, slot, flag, poll, note, longest)
        writer.return(i32(0))
      },
      { result: 'i32', hot: true },
    )
  const waitFlag = awaiting('wait_flag', nap)
  const waitCount = awaiting('wait_count', shortNap)

  /**
   * The number of complete phases follows from the arrival count. A wait on an arrival barrier receives the parity of
   * the phase.
   */
  const waitBarrier = codeFunction(
    'wait_barrier',
    [
      ['memory', 'ptr'],
      ['word', 'ptr'],
      ['arrivals', 'i32'],
      ['phase', 'i32'],
      ['slot', 'ptr'],
      ['site', 'i32'],
    ],
    (writer, memory, word, arrivals, phase, slot, site) => {
      const poll = () => {
        const seen = writer.atomicLoad('seen', 'i32', word, 'acquire')
        const complete = binary('divU', seen, arrivals)
        const parity = and(sub(complete, add(phase, i32(1))), i32(1))
        return { seen, ready: writer.let('ready', unary('eqz', parity)) }
      }
      const note = (seen: Local): void =>
        noteWait(writer, slot, site, [
          [slotBlock.wanted, phase],
          [slotBlock.value, seen],
          [slotBlock.wait, i32(waitKind.barrier)],
        ])
      waitLoop(writer, memory, slot, word, poll, note)
      writer.return(i32(0))
    },
    { result: 'i32', hot: true },
  )

  const waitWord = codeFunction(
    'wait_word',
    [
      ['memory', 'ptr'],
      ['word', 'ptr'],
      ['wanted', 'i32'],
      ['slot', 'ptr'],
      ['site', 'i32'],
      ['kind', 'i32'],
    ],
    (writer, memory, word, wanted, slot, site, kind) => {
      const poll = () => {
        const seen = writer.atomicLoad('seen', 'i32', word, 'acquire')
        return { seen, ready: writer.let('ready', compare('ge', sub(seen, wanted), i32(0))) }
      }
      const note = (seen: Local): void =>
        noteWait(writer, slot, site, [
          [slotBlock.wanted, wanted],
          [slotBlock.value, seen],
          [slotBlock.wait, kind],
        ])
      waitLoop(writer, memory, slot, word, poll, note)
      writer.return(i32(0))
    },
    { result: 'i32', hot: true },
  )

  /** Sleeps on a word that no thread changes, to yield the core to the thread that the loop waits for. */
  const restInLoop = codeFunction(
    'rest_in_loop',
    [
      ['memory', 'ptr'],
      ['iterations', 'i32'],
      ['slot', 'ptr'],
      ['site', 'i32'],
    ],
    (writer, memory, iterations, slot, site) => {
      const spins = writer.load('spins', 'i32', 'i32', memory, control.spins)
      writer.if(binary('or', compare('lt', iterations, spins), and(iterations, i32(restEvery - 1))), () =>
        writer.return(),
      )
      noteWait(writer, slot, site, [[slotBlock.wait, i32(waitKind.loop)]])
      writer.emit({
        kind: 'sleep',
        at: at(memory, control.spins),
        expected: { kind: 'local', type: 'i32', local: spins },
        nanoseconds: constant('f64', rest),
      })
    },
    { hot: true },
  )

  const wakeSleepers = codeFunction(
    'wake_sleepers',
    [
      ['memory', 'ptr'],
      ['word', 'ptr'],
    ],
    (writer, memory, word) => {
      const sleepers = writer.atomicLoad('sleepers', 'i32', at(memory, control.sleepers), 'seqCst')
      writer.if(compare('ne', sleepers, i32(0)), () =>
        writer.emit({ kind: 'wake', at: { kind: 'local', type: 'ptr', local: word } }),
      )
    },
    { hot: true },
  )

  return {
    waitFlag,
    waitCount,
    waitBarrier,
    waitWord,
    restInLoop,
    wakeSleepers,
    raiseFault: makeRaise(),
    recordEvent: makeRecord(),
  }
}

/**
 * Builds the function that reports a fault, which finds the number of the worker's slot by comparing addresses, because
 * Code cannot convert a pointer to a number. In memory, the slots of the workers follow the control page.
 */
function makeRaise(): CodeFunction {
  return codeFunction(
    'raise_fault',
    [
      ['memory', 'ptr'],
      ['slot', 'ptr'],
      ['fault', 'i32'],
      ['site', 'i32'],
    ],
    (writer, memory, slot, fault, site) => {
      writer.store('i32', slot, fault, slotBlock.fault)
      writer.store('i32', slot, site, slotBlock.site)
      const number = writer.let('number', i32(0))
      writer.loop(() => {
        const here = address(memory, number, slotBlock.bytes, control.bytes)
        writer.if(compare('eq', here, slot), () => writer.break())
        writer.set(number, add(number, i32(1)))
        writer.if(compare('ge', number, i32(1 << 16)), () => writer.break())
      })
      writer.compareExchange(at(memory, control.faulty), i32(0), add(number, i32(1)), 'seqCst')
      writer.compareExchange(at(memory, control.abort), i32(stopReason.none), i32(stopReason.fault), 'seqCst')
    },
    { hot: true },
  )
}

export const faultNumber = (fault: Fault): number => faultCode[fault]

function makeRecord(): CodeFunction {
  return codeFunction(
    'record_event',
    [
      ['slot', 'ptr'],
      ['kind', 'i32'],
      ['site', 'i32'],
      ['start', 'f64'],
      ['end', 'f64'],
      ['who', 'i32'],
      ['what', 'i32'],
    ],
    (writer, slot, kind, site, start, end, who, what) => {
      const count = writer.load('count', 'i32', 'i32', slot, slotBlock.eventCount)
      const capacity = writer.load('capacity', 'i32', 'i32', slot, slotBlock.eventCapacity)
      writer.store('i32', slot, add(count, i32(1)), slotBlock.eventCount)
      writer.if(compare('ltU', count, capacity), () => {
        const events = writer.loadPointer('events', slot, slotBlock.events)
        const place = writer.let('place', address(events, count, event.bytes))
        writer.store('i32', place, kind, event.kind)
        writer.store('i32', place, site, event.site)
        writer.store('i64', place, convert('bits', 'i64', start), event.start)
        writer.store('i64', place, convert('bits', 'i64', end), event.end)
        writer.store('i32', place, who, event.who)
        writer.store('i32', place, what, event.what)
      })
    },
    { hot: true },
  )
}
