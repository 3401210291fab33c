// Tabs are links: each part of a page has its address.
export function Tabs({
  label,
  current,
  tabs,
}: {
  label: string;
  current: string;
  tabs: { name: string; title: string; href: string; count?: number }[];
}) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((x) => (
        <a key={x.name} href={x.href} aria-current={x.name === current ? "page" : undefined}>
          {x.title}
          {x.count ? <span class="count">{x.count}</span> : null}
        </a>
      ))}
    </nav>
  );
}
