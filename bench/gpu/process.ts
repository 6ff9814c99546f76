/**
 * Starts the processes of a benchmark: processes that compile kernels concurrently, and a new process after the device
 * was lost.
 */
import { spawnSync } from 'node:child_process'

/** The exit status of a process that can no longer use its device. */
export const lostStatus = 3

const isChild = 'ARKE_BENCH_CHILD'

/** Returns the result of `parseArgs`, or prints the problem in one line and exits. */
export function parsed<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    return fail(`${(error as Error).message.split('. ')[0]}; --help prints all options`)
  }
}

/** Prints a problem with the command line or the machine and exits with status 2. */
export function fail(message: string): never {
  console.error(message)
  process.exit(2)
}

/**
 * A lost device is usable again in a new process. After a lost device, the parent process only starts child processes
 * and never returns from this function.
 */
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

/**
 * Parses a fraction such as `0/8`, which means the first of eight groups. The result is a function that is true if the
 * nth item is in the group, or undefined if the text is malformed.
 */
export function partOf(text: string): ((n: number) => boolean) | undefined {
  const [part, parts] = text.split('/').map(Number)
  return part < parts ? (n) => n % parts === part : undefined
}
