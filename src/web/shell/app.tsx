/** Frame of the page: the header, the view of the current address, and messages at the edge. */

import { useEffect, useRef } from 'preact/hooks'
import { MarketList } from '../list/market-list.tsx'
import { config, connection } from '../state/exchange.ts'
import { marketOf, wantMarket } from '../state/markets.ts'
import { marketsLink, route } from '../state/router.ts'
import { Footer } from './footer.tsx'
import { Header } from './header.tsx'
import { lazyView } from './lazy-view.tsx'
import { ToastStack } from './toast-stack.tsx'

/** Each view is a separate file that a browser loads on first use. */
const MarketView = lazyView(async () => (await import('../market/market-view.tsx')).MarketView)
const EventView = lazyView(async () => (await import('../event/event-view.tsx')).EventView)
const PortfolioView = lazyView(
  async () => (await import('../portfolio/portfolio-view.tsx')).PortfolioView,
)

/** Moves the focus to a new view, so that screen readers announce the view's name. */
function useArrival(): void {
  const { view } = route.value
  const marketId = route.value.view === 'market' ? route.value.marketId : ''
  const question = marketOf(marketId)?.question
  useEffect(() => {
    if (marketId !== '') void wantMarket(marketId)
  }, [marketId])
  const slug = route.value.view === 'event' ? route.value.slug : ''
  const names = { portfolio: 'Portfolio', event: 'Event' } as const
  const title = view === 'portfolio' || view === 'event' ? names[view] : (question ?? 'Markets')
  useEffect(() => {
    document.title = `${title} · ${config.value?.service.name ?? 'Sibyl'}`
  }, [title, config.value])
  const isFirst = useRef(true)
  useEffect(() => {
    if (!isFirst.current) {
      scrollTo(0, 0)
      document.getElementById('main')?.focus()
    }
    isFirst.current = false
  }, [view, marketId, slug])
}

export function App() {
  useArrival()
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Header />
      <Lost />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
      <Footer />
      <ToastStack />
    </>
  )
}

function View() {
  const at = route.value
  switch (at.view) {
    case 'markets':
      return <MarketList />
    case 'market':
      return <MarketView key={at.marketId} marketId={at.marketId} />
    case 'event':
      return <EventView key={at.slug} slug={at.slug} />
    case 'portfolio':
      return <PortfolioView />
    case 'nowhere':
      return (
        <p class="empty">
          This page does not exist. <a href={marketsLink.value}>All markets</a>
        </p>
      )
  }
}

/** A notice while the connection to the exchange is lost. Nothing on the page is up to date during that time. */
function Lost() {
  const lost = connection.value.state === 'lost'
  return (
    <div role="status" class="lost" hidden={!lost}>
      {lost ? 'Connection lost. The data on this page can be old. Reconnecting …' : ''}
    </div>
  )
}
