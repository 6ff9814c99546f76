/**
 * Declares the functions of the WebAssembly API that Arke uses. TypeScript declares the WebAssembly API only in its DOM
 * library.
 */
declare namespace WebAssembly {
  class Memory {
    constructor(descriptor: { initial: number; maximum?: number; shared?: boolean })
    readonly buffer: ArrayBufferLike
    grow(pages: number): number
  }
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports?: Record<string, Record<string, unknown>>)
    readonly exports: Record<string, unknown>
  }
  function validate(bytes: Uint8Array): boolean
}
