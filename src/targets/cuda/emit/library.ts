/**
 * Combines the declarations of the device library. Emitted code refers to a declaration through `lib`, which records
 * the use. A kernel includes the declarations that its code uses, and all declarations on which these depend, in the
 * order of the library.
 */
import type { Declaration, Library } from '../declaration.ts'
import { fixedPrelude, prelude, type PreludeOptions } from '../prelude.ts'
import { word, type Code } from './code.ts'
import { COMMON, STAGING } from './device.ts'
import { RECORDING } from './recorderFunctions.ts'

const fixed = { ...fixedPrelude, ...COMMON, ...RECORDING, ...STAGING }

export type DeviceName = keyof typeof fixed

/**
 * Maps the name of each declaration that is equal for all kernels to `Code` that records the use of the declaration.
 */
export const lib = Object.fromEntries(Object.keys(fixed).map((name) => [name, word(name, name)])) as Readonly<
  Record<DeviceName, Code>
>

/** All declarations that a kernel may use, except for those that are generated for the kernel. */
export const libraryOf = (options: PreludeOptions): Library => ({
  ...prelude(options),
  ...COMMON,
  ...RECORDING,
  ...STAGING,
})

/** The C++ text of the declarations that a kernel uses directly or indirectly, each below its comment. */
export function usedOf(library: Library, used: Iterable<string>): string {
  const found = new Set<string>()
  const visit = (names: Iterable<string>): void => {
    for (const name of names) {
      if (found.has(name)) continue
      found.add(name)
      const declared = library[name] as Declaration | undefined
      if (!declared) throw new Error(`the device library has no ${name}`)
      visit(declared.uses)
    }
  }
  visit(used)
  return Object.entries(library)
    .filter(([name]) => found.has(name))
    .map(
      ([, { note, text }]) =>
        `${note ? ['', ...note.map((line) => `// ${line}`), ''].join('\n') : ''}${text}\n`,
    )
    .join('')
}
