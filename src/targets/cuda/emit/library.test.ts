import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

import { emit } from '../../../../test/cuda/emitting.ts'
import { isSample, shippedKernels } from '../../../../test/cuda/shipped.ts'
import { itForSome } from '../../../../test/long.ts'
import { f32 } from '../../../lang/dtypes.ts'
import { kernel, tensor } from '../../../lang/kernel.ts'
import type { Library } from '../declaration.ts'
import { wgmmaName } from '../prelude.ts'
import { strongAccess, tensorCopy } from './accesses.ts'
import { lib, libraryOf, usedOf } from './library.ts'

const wgmma = (['shared', 'registers'] as const).map((a) => ({ n: 64, dtype: 'bf16' as const, a }))
const library = libraryOf({ wgmma })

const withoutComments = (text: string): string => text.replace(/\/\/.*$/gm, '')

/** Returns the names of library declarations that occur in a text, except the name `own`. */
const wordsIn = (text: string, own = ''): string[] =>
  [...new Set(withoutComments(text).match(/\w+/g))].filter((word) => word in library && word !== own).sort()

/** Returns the name of the type or function that a C++ text declares. */
function declaredBy(text: string): string | undefined {
  const [head] = text.replace(/template <[^>]*>/, '').split(/[;{]/)
  return (/^\s*(?:struct|typedef)\b.*?(\w+)\s*$/.exec(head) ?? /(\w+)\(/.exec(head))?.[1]
}

describe('the device library', () => {
  it.each(Object.keys(library))(
    '%s declares its own name and lists all library names that its text uses',
    (name) => {
      const { text, uses } = library[name]
      expect(declaredBy(text)).toBe(name)
      expect([...uses].sort()).toEqual(wordsIn(text, name))
    },
  )

  it('lists the library names that the text of a generated device function uses', () => {
    const made = [
      ...[2, 5].flatMap((axes) => [tensorCopy('load', axes), tensorCopy('store', axes)]),
      ...(['f32', 'u8', 'i8', 'bf16', 'i32', 'u32', 'i64'] as const).flatMap((dtype) =>
        (['load', 'store', 'add', 'cas', 'max'] as const).flatMap(
          (op) => strongAccess({ op, dtype, order: 'relaxed', scope: 'device', space: 'global' }) ?? [],
        ),
      ),
    ]
    for (const { name, text, uses } of made) {
      expect(declaredBy(text)).toBe(name)
      for (const word of wordsIn(text)) expect(uses, name).toContain(word)
    }
  })

  it('includes the used declarations and all declarations on which these depend, in library order', () => {
    const few = usedOf(library, ['barrier_await'])
    const names = ['u32', 'barrier_try', 'WaitRecord', 'Control', 'abort_raised', 'barrier_await']
    expect(few).toBe(usedOf(Object.fromEntries(names.map((name) => [name, library[name]])), names))
  })

  it('throws an error for a name that it does not declare', () => {
    expect(() => usedOf(library, ['unheard_of'])).toThrow('the device library has no unheard_of')
  })

  it('adds less than 800 characters in front of a small kernel', () => {
    const set = kernel('set', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
    const { source } = emit(set.record({ world: 1 }))
    expect(source.indexOf('// set, for')).toBeLessThan(800)
  })

  it('contains only declarations that the emitter or another declaration uses', () => {
    const folder = import.meta.dirname
    const renderers = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('test.ts'))
      .map((file) => readFileSync(join(folder, file), 'utf8'))
      .join('\n')
    // The names of declarations that renderers compose from parts, such as `mma_` and `bf16`.
    const composed =
      /^(registers_(raise|lower)|stage_(halves|floats)|pack_b?f16|mma_b?f16|load_matrix_.*|(b?f16|f8\w+)_to_f32|f32_to_(b?f16|f8\w+|i8|u8|i64))$/
    const used = new Set([
      ...Object.values(library).flatMap(({ uses }) => uses),
      ...[...renderers.matchAll(/\blib\.(\w+)/g)].map(([, name]) => name),
      ...wgmma.map(wgmmaName),
      ...['u8', 'u16', 'i8', 'u32', 'i32', 'i64'],
    ])
    expect(Object.keys(library).filter((name) => !used.has(name) && !composed.test(name))).toEqual([])
    expect([...renderers.matchAll(/\blib\.(\w+)/g)].filter(([, name]) => !(name in lib))).toEqual([])
  })
})

/**
 * Returns the declarations that a kernel needs, found as a compiler would find them: by the identifiers in its text.
 * The emitter does not read emitted text, but collects the used declarations from the code that it writes.
 */
function neededBy(text: string, available: Library): Set<string> {
  const needed = new Set<string>()
  const visit = (part: string): void => {
    for (const [word] of withoutComments(part).matchAll(/\w+/g))
      if (word in available && !needed.has(word)) {
        needed.add(word)
        visit(available[word].text)
      }
  }
  visit(text)
  return needed
}

describe('the text of a kernel', () => {
  const cases = shippedKernels.map((one) => [one.name, one] as const)
  itForSome(cases, isSample)('%s includes exactly the declarations that it needs', ([, one]) => {
    for (const options of [{}, { record: true }]) {
      const { source } = one.emit(options)
      const at = source.indexOf('extern "C"')
      const needed = neededBy(source.slice(at), library)
      const included = Object.keys(library).filter((name) => source.slice(0, at).includes(library[name].text))
      // A device function that is generated for the kernel may need declarations that the kernel's own text does not
      // need.
      for (const name of needed) expect(included).toContain(name)
      const made = neededBy(source.slice(0, at), library)
      for (const name of included) expect(needed.has(name) || made.has(name), name).toBe(true)
    }
  })
})
