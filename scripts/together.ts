/**
 * Runs scripts of package.json at the same time and prints the output of each script when the script ends. Exits with 1
 * if any of them failed.
 *
 *   npx tsx scripts/together.ts lint typecheck
 */
import { spawn } from 'node:child_process'

/** Returns whether the script succeeded. */
function run(script: string): Promise<boolean> {
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
      resolve(code === 0)
    })
  })
}

const passed = await Promise.all(process.argv.slice(2).map(run))
process.exitCode = passed.every(Boolean) ? 0 : 1
