/**
 * Runs scripts of package.json at the same time, and prints the output of each script when the script ends. A command
 * after `--` runs at the same time and prints to the terminal directly. Exits with 1 if a script or the command failed.
 *
 *   npx tsx scripts/together.ts lint typecheck -- vitest run
 */
import { spawn } from 'node:child_process'

interface Ended {
  readonly name: string
  readonly isSuccess: boolean
}

/** Runs a script of package.json. */
function run(script: string): Promise<Ended> {
  const began = Date.now()
  const child = spawn('npm', ['run', '--silent', script], { stdio: ['ignore', 'pipe', 'pipe'] })
  const printed: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => printed.push(chunk))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      const seconds = ((Date.now() - began) / 1000).toFixed(0)
      console.log(`${script}: ${code === 0 ? 'passed' : 'FAILED'} after ${seconds} s`)
      process.stdout.write(Buffer.concat(printed))
      resolve({ name: script, isSuccess: code === 0 })
    })
  })
}

/** Runs a command that prints to the terminal directly. */
function runInFront([command, ...args]: readonly string[]): Promise<Ended> {
  const child = spawn('npx', ['--no-install', command, ...args], { stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ name: command, isSuccess: code === 0 }))
  })
}

const words = process.argv.slice(2)
const at = words.indexOf('--')
const scripts = at < 0 ? words : words.slice(0, at)
const inFront = at < 0 ? [] : [words.slice(at + 1)]
const ended = await Promise.all([...scripts.map(run), ...inFront.map(runInFront)])
const failed = ended.filter(({ isSuccess }) => !isSuccess)
// The names of failed scripts are printed at the end, because their output may have scrolled far up.
if (inFront.length > 0 && failed.length > 0)
  console.log(`FAILED: ${failed.map(({ name }) => name).join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0
