/**
 * Stores the results of the benchmark in a file. The result file is written before and after every cell and read at the
 * start, so that a run continues where the last run ended. If a cell was started twice without a result, it is skipped
 * in all later runs, because its kernels make the device unusable.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CellResult } from './cells.ts'

export interface Results<Result = CellResult> {
  readonly machine: Readonly<Record<string, string | number>>
  readonly date: string
  /** The number of times that each cell without a result was started, by the key of the cell. */
  readonly begun: Readonly<Record<string, number>>
  readonly cells: readonly Result[]
}

const mostBegun = 2

export class Store<Result extends { readonly key: string } = CellResult> {
  readonly #path: string
  #results: Results<Result>

  /** Opens the result file. An error is thrown if the results in the file are from a device of another name. */
  constructor(path: string, machine: Results['machine'], date: string) {
    this.#path = path
    const found = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Results<Result>) : undefined
    if (found && found.machine.device !== machine.device)
      throw new Error(
        `${path} contains results of ${found.machine.device}, but this machine has ${machine.device}: use another file`,
      )
    this.#results = found ?? { machine, date, begun: {}, cells: [] }
  }

  get results(): Results<Result> {
    return this.#results
  }

  has(key: string): boolean {
    return this.#results.cells.some((cell) => cell.key === key)
  }

  /** True if the cell was attempted twice without a result. */
  isGivenUp(key: string): boolean {
    return (this.#results.begun[key] ?? 0) >= mostBegun
  }

  begin(key: string): void {
    const { begun } = this.#results
    this.#results = { ...this.#results, begun: { ...begun, [key]: (begun[key] ?? 0) + 1 } }
    this.#write()
  }

  /** Stores a result, which replaces an earlier result of the same cell. */
  add(cell: Result): void {
    const others = this.#results.cells.filter(({ key }) => key !== cell.key)
    const { [cell.key]: _, ...begun } = this.#results.begun
    this.#results = { ...this.#results, begun, cells: [...others, cell] }
    this.#write()
  }

  #write(): void {
    mkdirSync(dirname(this.#path), { recursive: true })
    // If the run is killed during the write, the old file remains.
    writeFileSync(`${this.#path}.part`, textOf(this.#results))
    renameSync(`${this.#path}.part`, this.#path)
  }
}

/** Formats the results as JSON with one line per cell. */
export const textOf = ({ cells, ...about }: Results<unknown>): string =>
  `${JSON.stringify(about).slice(0, -1)},"cells":[\n${cells.map((cell) => JSON.stringify(cell, shortNumber)).join(',\n')}\n]}\n`

/**
 * Rounds fractions to six digits, since no measured value is more precise. Integers such as extents keep their exact
 * value.
 */
const shortNumber = (_: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value
