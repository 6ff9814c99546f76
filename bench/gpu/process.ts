/** Processes of a benchmark: parts that compile at once, and a new one where the device was lost. */
import { spawnSync } from 'node:child_process'

/** With this a process ends that cannot use its device any more. */
export const lostStatus = 3

const isChild = 'ARKE_BENCH_CHILD'

/** What `parseArgs` reads, or what is wrong with it in one line. */
export function parsed<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    return fail(`${(error as Error).message.split('. ')[0]}; --help says what there is`)
  }
}

/** The command line is wrong. */
export function fail(message: string): never {
  console.error(message)
  process.exit(2)
}

/** A lost device is found again by a new process: this one only starts those, and does not return in it. */
export function surviveLostDevices(): void {
  if (process.env[isChild] !== undefined) return
  const env = { ...process.env, [isChild]: '1' }
  let given = process.argv.slice(1)
  for (;;) {
    const { status } = spawnSync(process.execPath, [...process.execArgv, ...given], { stdio: 'inherit', env })
    if (status !== lostStatus) process.exit(status ?? 1)
    given = given.filter((word) => word !== '--again')
  }
}

/** `0/8` is the first of eight parts: whether the nth is in it. Undefined where the text says no such thing. */
export function partOf(text: string): ((n: number) => boolean) | undefined {
  const [part, parts] = text.split('/').map(Number)
  return part < parts ? (n) => n % parts === part : undefined
}
