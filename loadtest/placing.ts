/** Places signed orders at a running exchange over keep-alive connections, round by round. */

import { openDriver, type Request } from './http-driver.ts'

const CONNECTIONS = 128

export type Placing = {
  /** Places all orders, and returns the rate per second; a refused order is an error. */
  place(requests: readonly Request[]): Promise<number>
  close(): void
}

export async function openPlacing(url: string): Promise<Placing> {
  const driver = await openDriver(url, CONNECTIONS)
  return {
    async place(requests) {
      const elapsedMs = await driver.closedLoop(requests, ({ status, body }) => {
        if (status !== 200) throw new Error(`${status}: ${body}`)
      })
      return (requests.length * 1_000) / elapsedMs
    },
    close: () => driver.close(),
  }
}
