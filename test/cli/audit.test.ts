/** Tests `arke audit`: its output, the files that it writes, and its exit status. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLOCK_OFFSET, AHEAD, demoTraces, demoTruth, STRAGGLER } from '../../src/audit/demo/demo.ts'
import type { Tally, Truth } from '../../src/audit/demo/truth.ts'
import type { Comparison } from '../../src/report/compare.ts'
import type { AuditDocument } from '../../src/report/document.ts'
import { auditCommand } from '../../src/cli/audit.ts'
import { project, start, type Ended } from './arke.ts'
import { interruptAt } from './interruptAt.ts'
import { itForSome, long } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-audit-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
/** Runs `arke audit` in a separate folder, where the HTML page is written. */
const audit = (...args: string[]): Promise<Ended> => start(['audit', ...args], [project.main], folder).ended
const documentOf = ({ stdout }: Ended): AuditDocument => JSON.parse(stdout) as AuditDocument

beforeAll(() => {
  for (const { name, text } of demoTraces()) writeFileSync(join(folder, name), text)
})

describe('the demo', () => {
  it('ends in three sentences that name the tax, the planted straggler and what to fuse', async () => {
    const { code, stdout, stderr } = await audit('--demo')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trim().split('\n')
    expect(lines.length).toBeLessThanOrEqual(45)
    const [written, , fix, culprit, tax] = lines.reverse()
    expect(written).toBe('Written: arke-report.html (open it in a browser)')
    expect(tax).toMatch(/^The biggest tax is bulk synchronous: .*waiting for the last rank/)
    expect(culprit).toMatch(new RegExp(`^Rank ${STRAGGLER} arrived last at`))
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
    expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([])
  })
})

describe('traces of a job', () => {
  it('from a folder and from a glob are the same, and no page is written with --json', long, async () => {
    const [byFolder, byGlob] = await Promise.all([audit('.', '--json'), audit('rank*.json', '--json')])
    expect(byFolder.code).toBe(0)
    expect(documentOf(byFolder)).toEqual(documentOf(byGlob))
  })

  it('of chosen steps have the wall of those', long, async () => {
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

  it('written to one trace on one clock and audited again are the same', long, async () => {
    const before = documentOf(await audit('.', '--json', '--trace', join(folder, 'merged.trace')))
    const again = documentOf(await audit('merged.trace', '--json'))
    expect(again.ranks.map(({ taxes }) => taxes)).toEqual(before.ranks.map(({ taxes }) => taxes))
    expect(again.clocks.some(({ aligned }) => aligned)).toBe(false)
    rmSync(join(folder, 'merged.trace'))
  })

  const clocks = [
    ['drift', { steps: 12, write: { clockDrift: [0, 0, 3e-4, 0, 0, -2e-4, 0, 0] } }, 0n],
    ['are years apart', { steps: 2 }, 100_000_000_000_000_000n],
  ] as const
  itForSome(clocks, ([how]) => how === 'are years apart')(
    'whose clocks %s come back from one trace on one clock',
    async ([, options, apart]) => {
      const own = mkdtempSync(join(folder, 'clocks-'))
      for (const { rank, name, text } of demoTraces(options))
        writeFileSync(
          join(own, name),
          text.replace(/("baseTimeNanoseconds": )(\d+)/, (_, key: string, base: string) =>
            rank === 2 ? `${key}${BigInt(base) + apart}` : `${key}${base}`,
          ),
        )
      const merged = join(own, '..', 'one.trace')
      const before = documentOf(await audit(own, '--json', '--trace', merged))
      expect(before.clocks[2].aligned).toBe(true)
      const again = documentOf(await audit(merged, '--json'))
      rmSync(merged)
      rmSync(own, { recursive: true })
      expect(again.clocks.some(({ aligned }) => aligned)).toBe(false)
      for (const [i, { wallUs, taxes, computeUs }] of again.ranks.entries()) {
        // Aligning a drifting clock with the common clock scales its times, by at most 3e-4.
        const near = (value: number | null, other: number | null): void =>
          expect(Math.abs((value ?? NaN) - (other ?? NaN))).toBeLessThan(1 + 4e-4 * (other ?? 0))
        near(wallUs, before.ranks[i].wallUs)
        near(computeUs, before.ranks[i].computeUs)
        near(taxes.waitUs, before.ranks[i].taxes.waitUs)
        near(taxes.exposedTransferUs, before.ranks[i].taxes.exposedTransferUs)
        near(taxes.launchUs, before.ranks[i].taxes.launchUs)
      }
    },
  )

  it('that nothing ties together are said to be so, and are not called aligned', async () => {
    const own = mkdtempSync(join(folder, 'apart-'))
    const one = (rank: number, base: bigint): void =>
      writeFileSync(
        join(own, `rank${rank}.json`),
        `{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7,"device":0}}],"baseTimeNanoseconds":${base}}`,
      )
    one(0, 1_700_000_000_000_000_000n)
    one(1, 1_600_000_000_000_000_000n)
    const { code, stdout } = await audit(own, '--no-html', '--trace', join(folder, 'apart.trace'))
    rmSync(own, { recursive: true })
    expect(code).toBe(0)
    expect(stdout).not.toContain('set by collective ends')
    expect(stdout.replace(/\s+/g, ' ').match(/recorded weeks or years apart/g)).toHaveLength(1)
    const again = documentOf(await audit('apart.trace', '--json'))
    rmSync(join(folder, 'apart.trace'))
    expect(again.ranks.map(({ rank, startUs }) => [rank, startUs])).toEqual([
      [0, 0],
      [1, 0],
    ])
  })
})

describe('a comparison', () => {
  const own = mkdtempSync(join(folder, 'compared-'))
  const smaller = { layers: 2, seed: 8 }
  beforeAll(async () => {
    mkdirSync(join(own, 'after'))
    for (const { name, text } of demoTraces(smaller)) writeFileSync(join(own, 'after', name), text)
    // The audit must recognise JSON documents whatever their file name or formatting is.
    const [before, after] = await Promise.all([
      audit('rank*.json', '--json'),
      audit(join(own, 'after'), '--json'),
    ])
    writeFileSync(join(own, 'before.txt'), before.stdout)
    writeFileSync(join(own, 'after.out'), `\n${JSON.stringify(JSON.parse(after.stdout), undefined, 2)}`)
  })
  afterAll(() => rmSync(own, { recursive: true }))
  const compared = ({ stdout }: Ended): Comparison =>
    (JSON.parse(stdout) as { compared: { comparison: Comparison } }).compared.comparison

  it('of traces with traces has the ratios of what was planted, after over before', async () => {
    const ended = await audit('rank*.json', '--compare', join(own, 'after'), '--json')
    expect(ended.code).toBe(0)
    const comparison = compared(ended)
    expect(comparison.basis).toBe('step')
    const steps = (truth: Truth): Tally[] => truth.ranks.flatMap((rank) => rank.steps)
    const mean = (truth: Truth, of: (step: Tally) => number): number =>
      steps(truth).reduce((sum, step) => sum + of(step), 0) / steps(truth).length
    const [was, is] = [demoTruth(), demoTruth(smaller)]
    for (const [name, of] of [
      ['wall', (step) => step.wall],
      ['compute', (step) => step.parts.compute],
      ['launch tax', (step) => step.parts.dispatch + step.parts.gap],
      ['exposed communication', (step) => step.parts.wait + step.parts.transfer],
    ] as [string, (step: Tally) => number][]) {
      const figure = comparison.figures.find((one) => one.name === name)
      expect(figure?.before).toBeCloseTo(mean(was, of) / 1000, 2)
      expect(figure?.after).toBeCloseTo(mean(is, of) / 1000, 2)
      expect(figure?.ratio).toBeCloseTo(mean(is, of) / mean(was, of), 5)
      expect(figure?.ratio).toBeLessThan(0.8)
    }
    expect(comparison.ranks.map(({ rank }) => rank)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    for (const { beforeUs, afterUs } of comparison.ranks) expect(afterUs).toBeLessThan(beforeUs)
  })

  it('of documents is that of their traces, whatever their names; no page is written', long, async () => {
    rmSync(join(folder, 'arke-report.html'), { force: true })
    const [traces, documents, back, shown] = await Promise.all([
      audit('rank*.json', '--compare', join(own, 'after'), '--json'),
      audit(join(own, 'before.txt'), '--compare', join(own, 'after.out'), '--json'),
      audit(join(own, 'after.out'), '--compare', join(own, 'before.txt'), '--json'),
      audit(join(own, 'before.txt'), '--compare', join(own, 'after')),
    ])
    expect(compared(documents)).toEqual(compared(traces))
    for (const [i, { before, after }] of compared(back).figures.entries()) {
      const { before: was, after: is } = compared(traces).figures[i]
      expect([after, before]).toEqual([was, is])
    }
    expect(shown.stdout).toMatch(/mean over ranks, per step +before +after +after\/before/)
    expect(shown.stdout).not.toContain('Written')
    expect(existsSync(join(folder, 'arke-report.html'))).toBe(false)
  })

  it('writes the page of the audit before where one is asked for, and says of which', async () => {
    const { stdout } = await audit('rank*.json', '--compare', join(own, 'after.out'), '--html', 'before.html')
    expect(stdout).toContain('Written: before.html (of the audit before; open it in a browser)')
    rmSync(join(folder, 'before.html'))
  })

  it('a document alone is shown again, without a page', async () => {
    const [again, first] = await Promise.all([
      audit(join(own, 'before.txt')),
      audit('rank*.json', '--no-html'),
    ])
    expect(again.code).toBe(0)
    expect(again.stdout.startsWith(first.stdout.trimEnd())).toBe(true)
    expect(again.stdout.slice(first.stdout.trimEnd().length)).toMatch(
      /^\s*No page was written, because a page needs the traces/,
    )
  })
})

describe('an audit that is interrupted', () => {
  const run = async (moment: string): Promise<{ printed: string; failure: unknown }> => {
    const { progress, interrupt } = interruptAt(moment)
    const printed: string[] = []
    const html = join(folder, 'interrupted.html')
    const failure: unknown = await auditCommand(
      [join(folder, 'rank0.json')],
      { html },
      '0.0.0',
      (text) => void printed.push(text),
      progress,
      undefined,
      interrupt,
    ).catch((error: unknown) => error)
    expect(readdirSync(folder).filter((name) => name.startsWith('interrupted'))).toEqual([])
    return { printed: printed.join('\n'), failure }
  }

  it.each(['rank0', 'attributing'])('while it says "%s" prints nothing', async (moment) => {
    const { printed, failure } = await run(moment)
    expect(printed).toBe('')
    expect(failure).toMatchObject({ message: `interrupted while ${moment}` })
  })

  it('while it writes the page has printed the rest, and leaves no page', async () => {
    const { printed, failure } = await run('writing')
    expect(failure).toBeUndefined()
    expect(printed).toContain('The biggest tax')
    expect(printed).not.toContain('Written:')
  })
})

describe('bad input is one line, and exit code 2', () => {
  const bad = [
    ['nothing', [], /name a trace, a folder or a glob/],
    ['a missing file', ['nowhere.json'], /nowhere\.json/],
    ['a glob without a match', ['*.nothing'], /\*\.nothing/],
    ['a file that is no trace', ['empty.bin'], /empty\.bin/],
    [
      'an archive that is not read',
      ['rank0.json', 'all.7z'],
      /all\.7z: this is a 7z archive, which is not supported/,
    ],
    ['steps that are not there', ['rank0.json', '--steps', '900..901'], /900\.\.901.*there are steps/],
    ['steps that are no range', ['rank0.json', '--steps', '5..2'], /--steps 5\.\.2/],
    ['a path beside --demo', ['rank0.json', '--demo'], /--demo/],
    ['a page that cannot be written', ['rank0.json', '--html', 'no/such/folder/x.html'], /no\/such\/folder/],
    ['a trace that cannot be written', ['rank0.json', '--json', '--trace', 'no/x'], /there is no folder no;/],
    ['a page and no page', ['rank0.json', '--no-html', '--html', 'x.html'], /--html and --no-html/],
    ['no page and a page', ['rank0.json', '--html', 'x.html', '--no-html'], /--html and --no-html/],
    ['tables where a file is', ['rank0.json', '--csv', 'empty.bin'], /--csv empty\.bin: this is a file/],
    ['a page where a folder is', ['rank0.json', '--html', '.'], /it is a folder/],
    [
      'a document of another version',
      ['rank0.json', '--compare', 'old.doc'],
      /old\.doc: .*there is no sources/,
    ],
    ['a document that is cut off', ['cut.doc'], /cut\.doc: this document of arke audit is damaged/],
    ['a document with an option for traces', ['cut.doc', '--steps', '1'], /--steps needs the traces/],
    ['a document beside a trace', ['rank0.json', 'cut.doc'], /cut\.doc: this is the output of --json/],
    ['a comparison with nothing', ['rank0.json', '--compare', 'nowhere'], /nowhere: no such file/],
    ['an option of another command', ['rank0.json', '--schedules', '5'], /unknown option/],
  ] as const
  itForSome(bad, (_, place) => place % 6 === 0)('%s', async ([, args, message]) => {
    writeFileSync(join(folder, 'empty.bin'), Buffer.from([1, 2, 3, 0, 255]))
    writeFileSync(join(folder, 'all.7z'), Buffer.from("7z\xbc\xaf'\x1c", 'latin1'))
    writeFileSync(join(folder, 'old.doc'), '{"arke":"0.0.1","ranks":[]}')
    writeFileSync(join(folder, 'cut.doc'), '{ "arke": "0.1.0", "sources": [{')
    const { code, stderr, stdout } = await audit(...args)
    expect(stdout).toBe('')
    expect(stderr).not.toMatch(/\w+Error|at byte/)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(stderr).toMatch(/^arke: /)
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })
})
