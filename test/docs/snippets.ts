/** Extracts the TypeScript snippets from a Markdown file: its fenced blocks, with the words after `ts` on the fence. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export interface Snippet {
  /** The line of the Markdown file at which the snippet begins. */
  readonly line: number
  readonly kind: string
  readonly text: string
}

export function fences(file: string, language: string): Snippet[] {
  const found: Snippet[] = []
  let open: { line: number; kind: string; text: string[] } | undefined
  readFileSync(join(root, file), 'utf8')
    .split('\n')
    .forEach((line, i) => {
      const fence = /^```(\w*) ?(\w*)$/.exec(line)
      if (open && fence) {
        found.push({ ...open, text: open.text.join('\n') })
        open = undefined
      } else if (open) open.text.push(line)
      else if (fence?.[1] === language) open = { line: i + 2, kind: fence[2], text: [] }
      else if (fence) open = { line: -1, kind: 'other', text: [] }
    })
  return found.filter(({ line }) => line > 0)
}

/** Files of the repository and of its packages, which are parsed once for all pages. */
const parsed = new Map<string, ts.SourceFile | undefined>()

/** The compile errors in the given files, one line each, without errors in imported files. */
export function compile(files: readonly string[]): string[] {
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), undefined, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (problem) => {
      throw new Error(String(problem.messageText))
    },
  })!
  // No file imports these global declarations, so they are added explicitly.
  const declared = join(root, 'src/targets/wasm/webassembly.d.ts')
  const options = { ...config.options, noEmit: true }
  const host = ts.createCompilerHost(options)
  const parse = host.getSourceFile.bind(host)
  host.getSourceFile = (name, version) => {
    if (files.includes(name)) return parse(name, version)
    if (!parsed.has(name)) parsed.set(name, parse(name, version))
    return parsed.get(name)
  }
  const program = ts.createProgram([...files, declared], options, host)
  // Errors in imported sources are left to `npm run typecheck`.
  const problems = [
    ...program.getGlobalDiagnostics(),
    ...files.flatMap((file) => ts.getPreEmitDiagnostics(program, program.getSourceFile(file))),
  ]
  return problems.map((problem) => {
    const at = problem.file?.getLineAndCharacterOfPosition(problem.start ?? 0)
    const text = ts.flattenDiagnosticMessageText(problem.messageText, ' ')
    return `${problem.file?.fileName}:${(at?.line ?? -1) + 1}: ${text}`
  })
}
