/** The guard of the wall clock, put to work: looks once a second, asks a chain while in doubt, raises the alarm. */

import { Gauge, type Registry } from 'prom-client'
import type { Settings } from '#config/settings-schema.ts'
import { aheadMsOf, type ClockMemory, machine } from '#runtime/clock.ts'
import { type ClockNews, guardClock } from '#runtime/clock-guard.ts'
import type { SupervisorLog } from '#runtime/supervised.ts'

const LOOK_MS = 1_000
const ASK_MS = 5_000

/** Ends with the function that it answers. The chains are known a while after the guard has begun. */
export function watchClock(ports: {
  readonly memory: ClockMemory
  readonly rules: Settings['clock']
  readonly chains: () => Settings['chains']
  readonly log: SupervisorLog
  readonly registry: Registry
}): () => void {
  const { memory, rules, log } = ports
  if (rules.jumpSeconds === 0) return () => {}
  const guard = guardClock(memory, {
    boundMs: rules.jumpSeconds * 1_000,
    confirmMs: rules.confirmSeconds * 1_000,
    machine,
    say,
  })
  new Gauge({
    name: 'sibyl_clock_jumped',
    help: '1 while the wall clock has jumped and time goes on without it',
    registers: [ports.registry],
    collect() {
      this.set(guard.isJumped ? 1 : 0)
    },
  })

  function say(news: ClockNews): void {
    switch (news.type) {
      case 'jumped': {
        const within = `${rules.confirmSeconds} seconds`
        const what = `the clock has jumped: nothing expires by it until a chain confirms it, it goes on evenly for ${within}, or the exchange is started again`
        log.error({ byMs: Math.round(news.byMs) }, what)
        return
      }
      case 'back':
        log.warn({}, 'the clock is back where it was expected')
        return
      case 'confirmed':
        log.warn({ byMs: Math.round(news.byMs), by: news.by }, 'the jump of the clock is believed')
    }
  }

  let askedMs = 0
  async function askChain(): Promise<void> {
    const chain = ports.chains().find(({ rpcUrls }) => rpcUrls.length > 0)
    if (chain === undefined) return
    const { chainId, rpcUrls } = chain
    const { makeChainClient } = await import('#chain/clients.ts')
    const client = makeChainClient({ chainId, rpcUrls, onError: () => {} })
    // A chain that cannot be asked says nothing of the time.
    const block = await client.viem.getBlock({ blockTag: 'latest' }).catch(() => undefined)
    if (block !== undefined) guard.heard(Number(block.timestamp) * 1_000 - aheadMsOf(memory))
  }

  const timer = setInterval(() => {
    guard.look()
    const nowMs = machine.monotonicMs()
    if (!guard.isJumped || nowMs - askedMs < ASK_MS) return
    askedMs = nowMs
    void askChain()
  }, LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
