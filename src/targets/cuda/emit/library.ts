/**
 * Selects the device functions that a kernel needs: functions that its text names, and functions that those functions
 * name. The selection keeps the order of the library.
 */

interface Declaration {
  readonly name: string
  readonly text: string
}

export function usedOf(library: string, kernel: string): string {
  const declared = declarations(library)
  const names = new Set(declared.map(({ name }) => name))
  const used = new Set<string>()
  const visit = (text: string): void => {
    for (const [word] of withoutComments(text).matchAll(/\w+/g)) {
      if (!names.has(word) || used.has(word)) continue
      used.add(word)
      for (const one of declared) if (one.name === word) visit(one.text)
    }
  }
  visit(kernel)
  return declared
    .filter(({ name }) => used.has(name))
    .map(({ text }) => text)
    .join('')
}

/**
 * The top-level declarations of the library, each with its preceding comment. A declaration ends where its braces are
 * balanced.
 */
export function declarations(library: string): Declaration[] {
  const found: Declaration[] = []
  let lines: string[] = []
  for (const line of library.split('\n')) {
    if (line === '' && lines.length === 0) continue
    lines.push(line)
    const text = lines.join('\n')
    const code = withoutComments(text).trimEnd()
    if (!/[;}]$/.test(code) || code.split('{').length !== code.split('}').length) continue
    const [head] = code.replace(/template <[^>]*>/, '').split(/[;{]/)
    const [, name] = /^\s*(?:struct|typedef)\b.*?(\w+)\s*$/.exec(head) ?? /(\w+)\(/.exec(head) ?? []
    if (!name) throw new Error(`a declaration without a name: ${head}`)
    found.push({ name, text: `${text.startsWith('//') ? '\n' : ''}${text}\n` })
    lines = []
  }
  return found
}

/** The text without `//` comments. */
export const withoutComments = (text: string): string => text.replace(/\/\/.*$/gm, '')
