/** Streams and events of the checker: they determine which launches a launch must follow. */
import { WorldError, type Stream, type StreamEvent } from '../../world/world.ts'
import type { Launch } from './launch.ts'
import type { Machine } from './machine.ts'
import type { Promises } from './promises.ts'

export class Streams {
  readonly #machine: Machine
  readonly #everyRank: readonly number[]
  readonly #promises: Promises
  readonly #reach: (launches: readonly Launch[]) => Promise<void>
  /** The launches that the next launch on a stream must follow, for each stream and rank. */
  readonly #awaited = new Map<number, (readonly Launch[])[]>()
  /** For each event and rank: the launches that must end before the event occurs. */
  readonly #marks = new WeakMap<StreamEvent, readonly (readonly Launch[])[]>()

  /** The argument `reach` is a function that executes enqueued launches until the given launches have ended. */
  constructor(
    machine: Machine,
    everyRank: readonly number[],
    promises: Promises,
    reach: (launches: readonly Launch[]) => Promise<void>,
  ) {
    this.#machine = machine
    this.#everyRank = everyRank
    this.#promises = promises
    this.#reach = reach
  }

  /** The stream with number `id`. */
  stream(id: number): Stream {
    return {
      kind: 'stream',
      id,
      record: () => {
        const marks = this.#everyRank.map((rank) => this.tail(id, rank))
        const event: StreamEvent = {
          kind: 'event',
          synchronize: () => this.#promises.track('event.synchronize', this.#reach(marks.flat())),
          elapsed: () => 0,
        }
        this.#marks.set(event, marks)
        return event
      },
      wait: (event) => {
        const marks = this.#marks.get(event)
        if (!marks) throw new WorldError('the event was not recorded on this world')
        for (const rank of this.#everyRank)
          this.await(id, rank, [...(this.#awaited.get(id)?.[rank] ?? []), ...marks[rank]])
      },
      synchronize: () =>
        this.#promises.track(
          'stream.synchronize',
          this.#reach(this.#everyRank.flatMap((rank) => this.tail(id, rank))),
        ),
    }
  }

  /** The launches that must end before all work enqueued so far on a stream of a rank is complete. */
  tail(stream: number, rank: number): readonly Launch[] {
    return [...this.#machine.last(rank, stream), ...(this.#awaited.get(stream)?.[rank] ?? [])]
  }

  /** Sets the launches that the next launch on a stream of a rank must follow. */
  await(stream: number, rank: number, launches: readonly Launch[]): void {
    let awaited = this.#awaited.get(stream)
    if (!awaited) this.#awaited.set(stream, (awaited = this.#everyRank.map(() => [])))
    awaited[rank] = launches
  }
}
