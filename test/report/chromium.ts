/**
 * A browser for tests: the installed Chromium, controlled through the DevTools protocol over a pipe, so that no npm
 * package is needed. Messages are JSON, each terminated by a zero byte.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'

/** The path of Chromium, or null if it is not installed. */
export function findChromium(): string | null {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    } catch {
      continue
    }
  }
  return null
}

type Parameters = Readonly<Record<string, unknown>>

export class Chromium {
  private readonly child: ChildProcess
  private readonly profile: string
  private readonly waiting = new Map<
    number,
    { resolve: (result: Parameters) => void; reject: (error: Error) => void }
  >()
  private readonly listeners: ((
    method: string,
    parameters: Parameters,
    session: string | undefined,
  ) => void)[] = []
  private last = 0

  constructor(program: string) {
    this.profile = mkdtempSync(join(tmpdir(), 'arke-chromium-'))
    this.child = spawn(
      program,
      [
        '--headless=new',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--no-first-run',
        '--hide-scrollbars',
        '--remote-debugging-pipe',
        `--user-data-dir=${this.profile}`,
      ],
      { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
    )
    this.child.once('exit', () => {
      for (const { reject } of this.waiting.values()) reject(new Error('the browser has ended'))
      this.waiting.clear()
    })
    let rest = Buffer.alloc(0)
    const input = this.child.stdio[4] as Readable
    input.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.receive(JSON.parse(rest.subarray(0, end).toString()) as Message)
        rest = rest.subarray(end + 1)
      }
    })
  }

  /** Opens a page. Console messages and network requests are collected from the beginning. */
  async page(width = 1280, height = 900, ratio = 1): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    const page = new Page(this, sessionId as string, targetId as string)
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`)
    await page.size(width, height, ratio)
    return page
  }

  send(method: string, parameters: Parameters = {}, sessionId?: string): Promise<Parameters> {
    const id = ++this.last
    const output = this.child.stdio[3] as Writable
    output.write(`${JSON.stringify({ id, method, params: parameters, sessionId })}\0`)
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }))
  }

  onEvent(listener: (method: string, parameters: Parameters, session: string | undefined) => void): void {
    this.listeners.push(listener)
  }

  async close(): Promise<void> {
    const gone = new Promise((resolve) => this.child.once('exit', resolve))
    await Promise.race([this.send('Browser.close'), gone]).catch(() => undefined)
    await gone
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }

  private receive({ id, method, params, result, error, sessionId }: Message): void {
    if (id !== undefined) {
      const waiting = this.waiting.get(id)
      this.waiting.delete(id)
      if (error) waiting?.reject(new Error(error.message))
      else waiting?.resolve(result ?? {})
    } else if (method !== undefined)
      for (const listener of this.listeners) listener(method, params ?? {}, sessionId)
  }
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: Parameters
  readonly result?: Parameters
  readonly error?: { readonly message: string }
  readonly sessionId?: string
}

/** Key codes of the keys that have a default action only if the code is sent. */
const keyCodes: Readonly<Record<string, { readonly code: number; readonly text?: string }>> = {
  Tab: { code: 9 },
  Enter: { code: 13, text: '\r' },
  Escape: { code: 27 },
  ' ': { code: 32, text: ' ' },
  End: { code: 35 },
  Home: { code: 36 },
  ArrowLeft: { code: 37 },
  ArrowUp: { code: 38 },
  ArrowRight: { code: 39 },
  ArrowDown: { code: 40 },
}

export class Page {
  /** Errors and warnings on the console, including uncaught errors. */
  readonly complaints: string[] = []
  /** The URLs that the page requested. */
  readonly requests: string[] = []
  private readonly browser: Chromium
  private readonly session: string
  private readonly target: string
  private loaded: () => void = () => undefined

  constructor(browser: Chromium, session: string, target: string) {
    this.browser = browser
    this.target = target
    this.session = session
    browser.onEvent((method, parameters, from) => {
      if (from !== session) return
      if (method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded')
        this.complaints.push(JSON.stringify(parameters))
      if (
        method === 'Runtime.consoleAPICalled' &&
        ['error', 'warning', 'assert'].includes(String(parameters.type))
      )
        this.complaints.push(JSON.stringify(parameters.args))
      if (method === 'Network.requestWillBeSent')
        this.requests.push((parameters.request as { url: string }).url)
      if (method === 'Page.loadEventFired') this.loaded()
    })
  }

  send(method: string, parameters: Parameters = {}): Promise<Parameters> {
    return this.browser.send(method, parameters, this.session)
  }

  size(width: number, height: number, ratio = 1): Promise<Parameters> {
    return this.send('Emulation.setDeviceMetricsOverride', {
      width,
      height,
      deviceScaleFactor: ratio,
      mobile: width < 500,
    })
  }

  /** Opens a URL and waits until the page reports that it is drawn. */
  async open(url: string): Promise<void> {
    const loaded = new Promise<void>((resolve) => (this.loaded = resolve))
    await this.send('Page.navigate', { url })
    await loaded
    await this.until(`document.documentElement.dataset.state === 'ready'`)
  }

  close(): Promise<Parameters> {
    return this.browser.send('Target.closeTarget', { targetId: this.target })
  }

  /** Evaluates an expression in the page and awaits its value. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails))
    return (result as { value: T }).value
  }

  async until(condition: string): Promise<void> {
    for (let tries = 0; tries < 400; tries++) {
      if (await this.evaluate<boolean>(`Boolean(${condition})`)) return
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    throw new Error(`never true: ${condition}`)
  }

  /** Waits for the next frame. */
  frame(): Promise<unknown> {
    return this.evaluate(
      'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))',
    )
  }

  mouse(
    type: 'mouseMoved' | 'mousePressed' | 'mouseReleased' | 'mouseWheel',
    x: number,
    y: number,
    more: Parameters = {},
  ): Promise<Parameters> {
    const pressed = type === 'mousePressed' || type === 'mouseReleased'
    return this.send('Input.dispatchMouseEvent', {
      type,
      x,
      y,
      button: pressed ? 'left' : 'none',
      clickCount: pressed ? 1 : 0,
      ...more,
    })
  }

  async click(x: number, y: number): Promise<void> {
    await this.mouse('mouseMoved', x, y)
    await this.mouse('mousePressed', x, y)
    await this.mouse('mouseReleased', x, y)
    await this.frame()
  }

  /** Presses a key with its default action: Tab moves the focus, Enter and space press buttons. */
  async key(key: string, modifiers: { readonly shift?: boolean } = {}): Promise<void> {
    const { code, text } = keyCodes[key] ?? { code: 0, text: key.length === 1 ? key : undefined }
    const more = { key, windowsVirtualKeyCode: code, modifiers: modifiers.shift ? 8 : 0 }
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', text, ...more })
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...more })
    await this.frame()
  }

  async screenshot(path: string, whole = false): Promise<void> {
    const { data } = await this.send('Page.captureScreenshot', {
      format: 'png',
      captureBeyondViewport: whole,
    })
    writeFileSync(path, Buffer.from(data as string, 'base64'))
  }
}
