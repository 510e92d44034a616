/**
 * Finds the data folder's chain where the start before this one left it, or starts a fresh one. A
 * chain is used again when its first block is the one that the data folder names: after a kill of the
 * exchange it waits a minute for this. Everything else on the port belongs to another program.
 */

import { resolve } from 'node:path'
import {
  ChainStartError,
  chainUrl,
  endChain,
  type Lease,
  leaseChain,
  probeChain,
  startChainProcess,
} from './chain-process.ts'
import { CHAIN_LOG, type RecordedChain, readChainRecord, writeChainRecord } from './chain-record.ts'
import { deployDevnet, devnetSettings, seedDevnet } from './seed.ts'

type DevnetOptions = {
  readonly dataDir: string
  /** Where a fresh chain listens; 0 takes a free port. */
  readonly port: number
  readonly chainId: number
  readonly lingerMs: number
  readonly disputeSeconds: number
  /** How many seconds the chain's clock is ahead: at once, and whenever it is moved. */
  readonly onClock: (aheadSeconds: number) => void
  readonly onLost: () => void
  /** Is told what is about to be done, for whoever waits. */
  readonly step?: (what: string) => void
  /** Puts data that belongs to another chain where it does not disturb. */
  readonly clearData: () => void
}

export type Devnet = RecordedChain & {
  /** Whether it is the chain of an earlier start. */
  readonly again: boolean
  /** Lets go of the chain, which then waits for the next start. */
  release(): void
  /** Ends the chain. */
  end(): Promise<void>
}

/** After a kill the chain hears within milliseconds that it was let go. */
const LET_GO_MS = 3_000
const LET_GO_POLL_MS = 50
/** How often a chain may leave the question open who it is, before its data is taken for another's. */
const SILENCES_MAX = 4

export async function openDevnet(options: DevnetOptions): Promise<Devnet> {
  options.step?.('looking for the local chain of the start before')
  const recorded = readChainRecord(options.dataDir)?.[options.chainId]
  if (recorded !== undefined && (await isFree(recorded, options.dataDir))) {
    return devnetOf(recorded, true, await leaseChain(recorded.url, options))
  }
  await clearPort(options)
  options.clearData()
  return startDevnet(options)
}

/** Whether the chain that the data belongs to runs, and no process holds on to it. */
async function isFree(recorded: RecordedChain, dataDir: string): Promise<boolean> {
  const giveUpMs = Date.now() + LET_GO_MS
  for (let silences = 0; ; ) {
    const probe = await probeChain(recorded.url)
    if (probe.found === 'silent' && ++silences < SILENCES_MAX) continue
    if (probe.found !== 'chain' || probe.identity.genesis !== recorded.genesis) return false
    if (probe.identity.leases === 0) return true
    if (Date.now() > giveUpMs) {
      throw new ChainStartError(
        `the data in ${dataDir} is in use: another exchange holds on to its chain at ${recorded.url}`,
      )
    }
    await new Promise((wake) => setTimeout(wake, LET_GO_POLL_MS))
  }
}

/** Makes sure that a fresh chain can have the port, or says who has it. */
async function clearPort({ port, dataDir }: DevnetOptions): Promise<void> {
  if (port === 0) return
  const elsewhere = 'SIBYL_DEVNET_PORT chooses another port, SIBYL_CHAIN_RPC another chain'
  const probe = await probeChain(chainUrl(port))
  if (probe.found === 'nothing') return
  if (probe.found !== 'chain') {
    throw new ChainStartError(`port ${port} of the local chain is in use; ${elsewhere}`)
  }
  const { owner, leases, endsInMs } = probe.identity
  if (leases > 0) {
    const whose = owner === '' ? 'another process' : `the exchange with its data in ${owner}`
    throw new ChainStartError(
      `port ${port} is the local chain of ${whose}, which is running; ${elsewhere}`,
    )
  }
  if (owner !== resolve(dataDir)) {
    const seconds = Math.ceil((endsInMs ?? 0) / 1_000)
    throw new ChainStartError(
      `port ${port} is the local chain of an exchange that was killed, with its data in ${owner}; ` +
        `it ends by itself in ${seconds} s, or ${elsewhere}`,
    )
  }
  // It was ours, but the data that knew it is gone.
  await endChain(chainUrl(port))
}

async function startDevnet(options: DevnetOptions): Promise<Devnet> {
  const { dataDir, port, chainId, lingerMs } = options
  const owner = resolve(dataDir)
  const logFile = resolve(dataDir, CHAIN_LOG)
  options.step?.('starting a local chain')
  const { url, genesis } = await startChainProcess({ port, chainId, lingerMs, owner, logFile })
  const lease = await leaseChain(url, options)
  try {
    options.step?.('putting the contracts on it')
    const terms = { disputeSeconds: BigInt(options.disputeSeconds) }
    const deployment = await deployDevnet(url, devnetSettings(terms))
    options.step?.('making markets, and giving the demo traders dollars and shares')
    await seedDevnet(url, deployment)
    const recorded = {
      genesis,
      url,
      contracts: {
        settlement: deployment.settlement.address,
        conditionalTokens: deployment.conditionalTokens.address,
        stablecoin: deployment.collateral.address,
        marketFactory: deployment.factory.address,
        multicall: deployment.multicall.address,
        oracle: deployment.oracle.address,
      },
    }
    // Only a chain that is complete is one to come back to.
    writeChainRecord(dataDir, { [chainId]: recorded })
    return devnetOf(recorded, false, lease)
  } catch (error) {
    lease.release()
    await endChain(url)
    throw error
  }
}

function devnetOf(recorded: RecordedChain, again: boolean, lease: Lease): Devnet {
  return {
    ...recorded,
    again,
    release: () => lease.release(),
    async end() {
      lease.release()
      await endChain(recorded.url)
    },
  }
}
