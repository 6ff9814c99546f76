/**
 * Measures peers that need Python (PyTorch, Triton). One process of peers.py runs for the whole benchmark. Each request
 * to this process measures one time, so that the executions of the peers alternate with Arke's on the same GPU. If
 * Python or a library is missing, the reason is reported once and all other measurements continue.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { LibraryWork } from '../../src/ops/points.ts'

interface Answer {
  readonly absent?: string
  readonly error?: string
  readonly us?: readonly number[]
  readonly names?: readonly string[]
  readonly failed?: Readonly<Record<string, string>>
  readonly torch?: string
  readonly triton?: string | null
  readonly cudnn?: number
}

export type Prepare =
  | {
      readonly do: 'gemm'
      readonly M: number
      readonly N: number
      readonly K: number
      readonly triton: boolean
    }
  | LibraryWork
  | { readonly do: 'launches' }

/** The path of peers.py, which is next to this file or, for a bundle, in the working tree that contains the bundle. */
const script = ['./', ...['./', '../', '../../', '../../../'].map((up) => `${up}bench/gpu/`)]
  .map((folder) => fileURLToPath(new URL(`${folder}peers.py`, import.meta.url)))
  .find(existsSync)

export class Peers {
  readonly #process: ChildProcessWithoutNullStreams
  readonly #waiting: ((line: string) => void)[] = []
  #ended: string | undefined
  /** The versions of the Python libraries, as one line of text. */
  about = ''

  private constructor(process: ChildProcessWithoutNullStreams) {
    this.#process = process
    let errors = ''
    const end = (why: string): void => {
      this.#ended = why
      for (const answer of this.#waiting.splice(0)) answer(JSON.stringify({ error: why }))
    }
    process.stderr.on('data', (text: Buffer) => (errors = `${errors}${text.toString()}`.slice(-2000)))
    process.stdin.on('error', () => undefined)
    process.on('error', (error) => end(error.message))
    process.on('exit', () => end(`the Python process ended: ${errors.trim().split('\n').at(-1) ?? ''}`))
    createInterface({ input: process.stdout }).on('line', (line) => {
      if (line.startsWith('answer ')) this.#waiting.shift()?.(line.slice('answer '.length))
    })
  }

  /** Starts the Python process. If the process cannot be started, the function returns the reason. */
  static async open(): Promise<Peers | string> {
    if (script === undefined) return 'peers.py was not found'
    const peers = new Peers(spawn(process.env.ARKE_PYTHON ?? 'python3', [script]))
    try {
      const { torch, triton, cudnn } = await peers.#ask({ do: 'hello' })
      peers.about = `PyTorch ${torch}, Triton ${triton ?? '(absent)'}, cuDNN ${cudnn}`
      return peers
    } catch (error) {
      peers.close()
      return (error as Error).message
    }
  }

  async #ask(request: object): Promise<Answer> {
    if (this.#ended !== undefined) throw new Error(this.#ended)
    const line = await new Promise<string>((resolve) => {
      this.#waiting.push(resolve)
      this.#process.stdin.write(`${JSON.stringify(request)}\n`)
    })
    const answer = JSON.parse(line) as Answer
    const problem = answer.absent ?? answer.error
    if (problem !== undefined) throw new Error(problem)
    return answer
  }

  /** Returns the names of the contestants that can be timed, and for all others the reason why they cannot. */
  async prepare(
    what: Prepare,
  ): Promise<{ names: readonly string[]; failed: Readonly<Record<string, string>> }> {
    const { names = [], failed = {} } = await this.#ask(what)
    return { names, failed }
  }

  /** Returns the device times of the executions in microseconds. The argument `turn` selects the set of inputs. */
  async time(name: string, turn: number, executions: number): Promise<readonly number[]> {
    return (await this.#ask({ do: 'time', name, turn, executions })).us!
  }

  /** Returns the time per launch in microseconds, for the host alone and until the device has finished. */
  async launch(name: string): Promise<readonly [host: number, whole: number]> {
    const [host, whole] = (await this.#ask({ do: 'launch', name })).us!
    return [host, whole]
  }

  close(): void {
    this.#process.stdin.end()
    this.#process.kill()
  }
}

let opened: Promise<Peers | string> | undefined

/** Returns the only peer process, which is started on first use. */
export const openPeers = (): Promise<Peers | string> => (opened ??= Peers.open())

export async function closePeers(): Promise<void> {
  const peers = await opened
  if (peers instanceof Peers) peers.close()
}
