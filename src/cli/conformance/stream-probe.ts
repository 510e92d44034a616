/** A plain socket to the stream: received frames are stored in order until a check reads them. */

import { parseExactJson } from '#client/exact-json.ts'
import { Mismatch } from './mismatch.ts'

export type Frame = Readonly<Record<string, unknown>> & { readonly type?: unknown }

export type StreamProbe = {
  /** Sends text unchanged, or an object as JSON. */
  say(frame: object | string): void
  /** Returns the first unread frame for which `fits` is true; earlier frames stay unread. */
  next(what: string, fits: (frame: Frame) => boolean): Promise<Frame>
  close(): void
}

const WAIT_MS = 15_000
const FRAMES_MAX = 10_000

export async function openStream(url: string): Promise<StreamProbe> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/v1/stream`)
  const frames: Frame[] = []
  const waiting = new Set<() => void>()
  let closed: string | undefined
  const wake = (): void => {
    for (const look of waiting) look()
  }
  socket.addEventListener('message', ({ data }) => {
    if (frames.length < FRAMES_MAX) frames.push(frameOf(String(data)))
    wake()
  })
  socket.addEventListener('close', ({ code }) => {
    closed = `the socket closed with code ${code}`
    wake()
  })
  socket.addEventListener('error', () => undefined)

  function next(what: string, fits: (frame: Frame) => boolean): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(`no matching frame within ${WAIT_MS} ms`), WAIT_MS)
      function end(why: string): void {
        clearTimeout(timer)
        waiting.delete(look)
        reject(new Mismatch(what, why))
      }
      function look(): void {
        const at = frames.findIndex(fits)
        const frame = frames[at]
        if (frame !== undefined) {
          frames.splice(at, 1)
          clearTimeout(timer)
          waiting.delete(look)
          resolve(frame)
        } else if (closed !== undefined) end(closed)
      }
      waiting.add(look)
      look()
    })
  }

  return {
    say: (frame) => socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    next,
    close: () => socket.close(),
  }
}

function frameOf(text: string): Frame {
  try {
    return parseExactJson(text) as Frame
  } catch {
    return { type: `a frame without JSON: ${text.slice(0, 40)}` }
  }
}
