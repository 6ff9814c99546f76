/**
 * Compiles emitted kernels with nvcc and ptxas, all in one file, since starting the compiler takes longer than
 * compiling a kernel.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'

/** The reason why no kernel can be compiled on this machine, or undefined. */
export const noCompiler: string | undefined =
  spawnSync('nvcc', ['--version']).status === 0 ? undefined : 'nvcc is not on the PATH'

export interface Compiled {
  readonly ptx: string
  /** The report of ptxas on stack use and register spills. */
  readonly properties: string
}

/**
 * Returns the compiled kernels in the given order. Throws an error with the compiler's message if the compiler rejects
 * a kernel or warns.
 */
export function compileTogether(kernels: readonly EmittedKernel[]): readonly Compiled[] {
  const folder = mkdtempSync(join(tmpdir(), 'arke-emit-'))
  try {
    const [source, ptx, cubin] = ['cu', 'ptx', 'cubin'].map((kind) => join(folder, `all.${kind}`))
    // Each kernel has its own namespace, because each contains the device functions that it uses.
    const texts = kernels.map(
      (kernel, i) =>
        `namespace kernel${i} {\n${kernel.source.replace(`${kernel.name}(\n`, `kernel_${i}(\n`)}}\n`,
    )
    writeFileSync(source, texts.join('\n'))
    execFileSync('nvcc', [
      '-std=c++17',
      '-arch=compute_90a',
      '-ptx',
      '-Werror',
      'all-warnings',
      '-o',
      ptx,
      source,
    ])
    const { stderr, status } = spawnSync('ptxas', ['-arch=sm_90a', '-v', '-o', cubin, ptx], {
      encoding: 'utf8',
    })
    if (status !== 0 || /warning/i.test(stderr)) throw new Error(stderr)
    const entries = readFileSync(ptx, 'utf8').split('.visible .entry ')
    return kernels.map((_, i) => ({
      ptx: entries.find((text) => text.startsWith(`kernel_${i}(`)) ?? '',
      properties: new RegExp(`Function properties for kernel_${i}\\n\\s*(.*)\\n`).exec(stderr)?.[1] ?? '',
    }))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const NO_SPILLS = '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
