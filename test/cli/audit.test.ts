/** `arke audit`: what it prints, writes and how it ends. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLOCK_OFFSET, AHEAD, demoTraces, demoTruth, STRAGGLER } from '../../src/audit/demo/demo.ts'
import type { Comparison } from '../../src/report/compare.ts'
import type { AuditDocument } from '../../src/report/document.ts'
import { root, start, type Ended } from './arke.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-audit-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
/** In a folder of its own, where the page goes. */
const audit = (...args: string[]): Promise<Ended> =>
  start(
    ['audit', ...args],
    ['--import', join(root, 'node_modules/tsx/dist/esm/index.mjs'), join(root, 'src/cli/main.ts')],
    folder,
  ).ended
const documentOf = ({ stdout }: Ended): AuditDocument => JSON.parse(stdout) as AuditDocument

beforeAll(() => {
  for (const { name, text } of demoTraces()) writeFileSync(join(folder, name), text)
})

describe('the demo', () => {
  it('ends in three sentences that name the tax, the planted straggler and what to fuse', async () => {
    const { code, stdout, stderr } = await audit('--demo')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trim().split('\n')
    expect(lines.length).toBeLessThanOrEqual(40)
    const [written, , fix, culprit, tax] = lines.reverse()
    expect(written).toBe('Written: arke-report.html (open it in a browser)')
    expect(tax).toMatch(/^The biggest tax is bulk synchronous: .*waiting for the last rank/)
    expect(culprit).toMatch(new RegExp(`^Rank ${STRAGGLER} kept the others waiting`))
    expect(fix).toMatch(/^Fix first: /)
    expect(readFileSync(join(folder, 'arke-report.html'), 'utf8')).toMatch(/^<!doctype html>/)
  })

  it('as JSON is what was planted', async () => {
    const ended = await audit('--demo', '--json', '--html', 'demo.html')
    expect(ended.code).toBe(0)
    const document = documentOf(ended)
    const truth = demoTruth()
    expect(document.ranks.map(({ rank }) => rank)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    for (const [
      i,
      { wallUs, busyUs, idleUs, computeUs, taxes, idle, exposedCommUs },
    ] of document.ranks.entries()) {
      const { wall, busy, parts } = truth.ranks[i]
      expect(wallUs).toBeCloseTo(wall / 1000, 2)
      expect(busyUs).toBeCloseTo(busy / 1000, 2)
      expect(busyUs + idleUs).toBeCloseTo(wallUs, 3)
      expect(taxes.waitUs).toBeCloseTo(parts.wait / 1000, 2)
      expect(taxes.exposedTransferUs).toBeCloseTo(parts.transfer / 1000, 2)
      expect(taxes.launchUs).toBeCloseTo((parts.dispatch + parts.gap) / 1000, 2)
      expect(idle.dispatchUs).toBeCloseTo(parts.dispatch / 1000, 2)
      expect(exposedCommUs).toBeCloseTo((parts.wait + parts.transfer) / 1000, 2)
      const sum =
        computeUs + taxes.launchUs + (taxes.waitUs ?? 0) + (taxes.exposedTransferUs ?? 0) + taxes.otherUs
      expect(sum).toBeCloseTo(wallUs, 3)
    }
    expect(document.stragglers[0].rank).toBe(STRAGGLER)
    const planted = truth.keptWaiting[STRAGGLER].reduce((sum, wait) => sum + wait, 0)
    expect(document.stragglers[0].keptWaitingUs).toBeCloseTo(planted / 1000, 2)
    expect(document.clocks.filter(({ aligned }) => aligned)).toMatchObject([
      { rank: AHEAD, correctionUs: -CLOCK_OFFSET / 1000 },
    ])
    expect(document.candidates.some(({ operation }) => operation?.name === 'allGatherGemm')).toBe(true)
    expect(existsSync(join(folder, 'demo.html'))).toBe(true)
  })
})

describe('traces of a job', () => {
  it('from a folder and from a glob are the same, and no page is written with --json', async () => {
    const [byFolder, byGlob] = await Promise.all([audit('.', '--json'), audit('rank*.json', '--json')])
    expect(byFolder.code).toBe(0)
    expect(documentOf(byFolder)).toEqual(documentOf(byGlob))
  })

  it('of chosen steps have the wall of those', async () => {
    const truth = demoTruth()
    const all = documentOf(await audit('.', '--json'))
    const [first, second] = all.steps.map(({ number }) => number)
    const { ranks, steps, chosenSteps } = documentOf(
      await audit('.', '--json', '--steps', `${first}..${second}`),
    )
    expect(chosenSteps).toEqual([first, second])
    expect(steps.map(({ number }) => number)).toEqual([first, second])
    for (const [i, { wallUs }] of ranks.entries())
      expect(wallUs).toBeCloseTo((truth.ranks[i].steps[0].wall + truth.ranks[i].steps[1].wall) / 1000, 2)
  })

  it('written to one trace on one clock and audited again are the same', async () => {
    const before = documentOf(await audit('.', '--json', '--trace', join(folder, 'merged.trace')))
    const again = documentOf(await audit('merged.trace', '--json'))
    expect(again.ranks.map(({ taxes }) => taxes)).toEqual(before.ranks.map(({ taxes }) => taxes))
    expect(again.clocks.some(({ aligned }) => aligned)).toBe(false)
    rmSync(join(folder, 'merged.trace'))
  })

  it('are compared with others, and with an earlier document', async () => {
    const before = await audit('.', '--json')
    const kept = join(mkdtempSync(join(folder, 'kept-')), 'before.json')
    writeFileSync(kept, before.stdout)
    const { code, stdout } = await audit('rank*.json', '--compare', kept, '--json')
    expect(code).toBe(0)
    const { comparison } = (JSON.parse(stdout) as { compared: { comparison: Comparison } }).compared
    expect(comparison.basis).toBe('step')
    for (const { ratio } of comparison.figures) expect(ratio === null || ratio === 1).toBe(true)
    expect(comparison.ranks).toHaveLength(8)
    const shown = await audit('rank*.json', '--compare', 'rank[0-3].json', '--no-html')
    expect(shown.stdout).toMatch(/mean over ranks, a step +before +after +after\/before/)
    rmSync(join(kept, '..'), { recursive: true })
  })
})

describe('bad input is one line, and exit code 2', () => {
  it.each([
    ['nothing', [], /name a trace, a folder or a glob/],
    ['a missing file', ['nowhere.json'], /nowhere\.json/],
    ['a glob without a match', ['*.nothing'], /\*\.nothing/],
    ['a file that is no trace', ['empty.bin'], /empty\.bin/],
    ['steps that are not there', ['rank0.json', '--steps', '900..901'], /900\.\.901.*there are steps/],
    ['steps that are no range', ['rank0.json', '--steps', '5..2'], /--steps 5\.\.2/],
    ['a path beside --demo', ['rank0.json', '--demo'], /--demo/],
    ['a page that cannot be written', ['rank0.json', '--html', 'no/such/folder/x.html'], /no\/such\/folder/],
    ['an option of another command', ['rank0.json', '--schedules', '5'], /unknown option/],
  ])('%s', async (_what, args, message) => {
    writeFileSync(join(folder, 'empty.bin'), Buffer.from([1, 2, 3, 0, 255]))
    const { code, stderr } = await audit(...args)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(stderr).toMatch(/^arke: /)
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })
})
