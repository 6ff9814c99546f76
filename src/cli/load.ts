/**
 * Loads the author's files and collects the kernels, scenarios and operations that they export, alone or in arrays.
 *
 * TypeScript files are loaded with tsx, which is imported only if a TypeScript file is given. Exports are recognised by
 * their properties and not by `instanceof`, because the author's file may import another copy of this package.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isBuilt } from '../files.ts'
import type { Kernel } from '../lang/kernel.ts'
import { isOperation, type AnyOperation } from '../operation/definition.ts'
import type { Scenario } from '../world/world.ts'
import { describeError, UsageError } from './errors.ts'

export interface Source {
  /** The path as the user gave it. */
  readonly file: string
  readonly kernels: readonly Kernel[]
  readonly scenarios: readonly Scenario[]
  readonly operations: readonly AnyOperation[]
}

/** True if an argument names a file and not an operation. The form `FILE#NAME` names an operation of a file. */
export const isFileName = (text: string): boolean =>
  [...typescript, ...javascript].includes(extname(text.split('#')[0])) || /[\\/]/.test(text)

const typescript = ['.ts', '.mts', '.cts', '.tsx']
const javascript = ['.js', '.mjs', '.cjs']

export async function load(file: string): Promise<Source> {
  const path = resolve(file)
  if (!existsSync(path)) throw new UsageError(`${file}: there is no such file`)
  if (!statSync(path).isFile()) throw new UsageError(`${file}: is not a file; name the files in it`)
  const isTypeScript = typescript.includes(extname(path))
  if (!isTypeScript && !javascript.includes(extname(path)))
    throw new UsageError(`${file}: kernels are in TypeScript or JavaScript files (.ts, .js, .mjs)`)
  if (isTypeScript) await enableTypeScript()
  let exported: Record<string, unknown>
  try {
    exported = (await import(pathToFileURL(path).href)) as Record<string, unknown>
  } catch (error) {
    const place = error instanceof SyntaxError && !isTypeScript ? syntaxErrorPlace(path) : ''
    throw new UsageError(`${file} does not load: ${place}${describeError(error)}`, { cause: error })
  }
  const things = collect(exported)
  const kernels = things.filter(isKernel)
  const scenarios = things.filter(isScenario)
  const operations = things.filter(isOperation)
  if (kernels.length === 0 && scenarios.length === 0 && operations.length === 0)
    throw new UsageError(
      `${file}: exports no kernel, scenario or operation; export what kernel(…), scenario(…) or defineOperation(…) returns`,
    )
  return { file, kernels, scenarios, operations }
}

/** True if Node can already load TypeScript. Node can load TypeScript if Arke itself runs from its source. */
let enabled = !isBuilt

async function enableTypeScript(): Promise<void> {
  if (enabled) return
  enabled = true
  const [esm, cjs] = await Promise.all([import('tsx/esm/api'), import('tsx/cjs/api')])
  cjs.register()
  esm.register()
}

/** Returns the line of a syntax error. Node reports the line of a syntax error only when it prints the error. */
function syntaxErrorPlace(path: string): string {
  const { stderr } = spawnSync(process.execPath, ['--check', path], { encoding: 'utf8' })
  const line = /:(\d+)\r?\n/.exec(stderr)?.[1]
  return line ? `line ${line}: ` : ''
}

/** Collects exported values without duplicates. The exports of a CommonJS file also appear in its default export. */
function collect(exported: Record<string, unknown>): unknown[] {
  const found = new Set<unknown>()
  const visit = (thing: unknown): void => {
    if (Array.isArray(thing)) thing.forEach(visit)
    else found.add(thing)
  }
  Object.values(exported).forEach(visit)
  const whole = exported.default
  const isOne = isKernel(whole) || isScenario(whole) || isOperation(whole)
  if (typeof whole === 'object' && whole !== null && !isOne) Object.values(whole).forEach(visit)
  return [...found]
}

function isKernel(thing: unknown): thing is Kernel {
  if (typeof thing !== 'object' || thing === null) return false
  const { name, params, meta, record } = thing as Partial<Kernel>
  return [typeof name, typeof params, typeof meta, typeof record].join() === 'string,object,object,function'
}

function isScenario(thing: unknown): thing is Scenario {
  return typeof thing === 'object' && thing !== null && (thing as { kind?: unknown }).kind === 'scenario'
}
