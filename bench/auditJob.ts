/**
 * Measures the built `arke audit` command on the traces of a large job: time, peak memory and the size of the page.
 *
 *   npm run build && npx tsx bench/auditJob.ts [--ranks 512] [--bytes 20e6] [--folder DIR]
 *
 * The traces repeat the events of the demo's traces. Every eight ranks are a process group. The traces are removed at
 * the end.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { demoJob } from '../src/audit/demo/demo.ts'
import { layOut } from '../src/audit/demo/layout.ts'
import { kinetoText } from '../src/audit/demo/write.ts'

const option = (name: string): string | undefined => {
  const at = process.argv.indexOf(name)
  return at > 0 ? process.argv[at + 1] : undefined
}
const ranks = Number(option('--ranks') ?? 512)
const bytes = Number(option('--bytes') ?? 20e6)
const arke = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
if (!existsSync(arke)) {
  console.error('dist/ is missing: run npm run build first')
  process.exit(1)
}
const GROUP = 8
const folder = mkdtempSync(join(option('--folder') ?? tmpdir(), 'arke-job-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const traces = join(folder, 'traces')
mkdirSync(traces)

const laid = layOut(demoJob())
const once = [...kinetoText(laid, 0)].reduce((sum, piece) => sum + piece.length, 0)
const repeat = Math.max(1, Math.round(bytes / once))
const members = Array.from({ length: GROUP }, (_, i) => i)
let written = 0
// The script generates one text at a time, so that it needs little memory.
for (const member of members) {
  const text = [...kinetoText(laid, member, { repeat })].join('')
  for (let rank = member; rank < ranks; rank += GROUP) {
    const own = `[${members.map((i) => rank - member + i).join(', ')}]`
    const changed = text
      .replaceAll(`[${members.join(', ')}]`, own)
      .replace(`"rank": ${member}, "world_size": ${GROUP}`, `"rank": ${rank}, "world_size": ${ranks}`)
    writeFileSync(join(traces, `rank${rank}.json`), changed)
    written += changed.length
  }
}
console.log(`${ranks} ranks, ${(written / 1e9).toFixed(2)} GB of traces, ${repeat * 2} steps per rank`)

const page = join(folder, 'page.html')
const json = join(folder, 'audit.json')
const runner = join(folder, 'runner.mjs')
writeFileSync(
  runner,
  `import { writeFileSync } from 'node:fs'
   process.on('exit', () => writeFileSync(${JSON.stringify(join(folder, 'peak'))}, String(process.resourceUsage().maxRSS)))
   process.argv = [process.argv[0], ${JSON.stringify(arke)}, 'audit', ...${JSON.stringify([traces, '--json', '--out', json, '--html', page])}]
   await import(${JSON.stringify(arke)})`,
)
const start = performance.now()
const { status, signal, stderr } = spawnSync(process.execPath, [runner], {
  encoding: 'utf8',
  cwd: folder,
  maxBuffer: 1 << 28,
})
const seconds = (performance.now() - start) / 1000
if (status !== 0) {
  console.error(`the audit ended with status ${status}, signal ${signal}: ${stderr.slice(-2000)}`)
  process.exit(1)
}
const peak = Number(readFileSync(join(folder, 'peak'), 'utf8')) / 1e6
const megabytes = (path: string): string => `${(statSync(path).size / 1e6).toFixed(1)} MB`
console.log(
  `${seconds.toFixed(1)} s (${(written / 1e6 / seconds).toFixed(0)} MB/s), peak memory ${peak.toFixed(2)} GB, ` +
    `page ${megabytes(page)}, JSON ${megabytes(json)}`,
)
