/** Runs a program in a separate process and interrupts it as soon as it prints that it has launched. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface Outcome {
  readonly code: number | null
  readonly signal: string | null
  readonly output: string
}

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href

/** Interrupts `program`, a file of this folder, with SIGINT. */
export function interrupted(program: string, ...args: readonly string[]): Promise<Outcome> {
  return signalled('SIGINT', program, ...args)
}

/** Sends the signal to the process. A program that does not end within 20 s is killed; `signal` is then SIGKILL. */
export function signalled(
  name: NodeJS.Signals,
  program: string,
  ...args: readonly string[]
): Promise<Outcome> {
  const path = fileURLToPath(new URL(program, import.meta.url))
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--import', tsx, path, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    const onData = (data: Buffer): void => {
      output += data.toString()
      if (output.includes('launched\n') && !child.killed) child.kill(name)
    }
    child.stdout.on('data', onData)
    child.stderr.on('data', onData)
    const timer = setTimeout(() => child.kill('SIGKILL'), 20_000)
    child.on('exit', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, output })
    })
  })
}
