<# The first parameters of every kernel of attention. live: where the draw of dropout begins, if not null. #>
    <% if fed %>const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
    <% else %>const T* q, const T* k, const T* v, <% endif %>

    <% for x in operands %><% if x.tiled %>const __grid_constant__ TensorMap x<< x.k >>, <% else %>const << x.type >>* x<< x.k >>, <% endif %><% endfor %>

    <% for x in tables %>const << x.type >>* t<< x.k >>, <% endfor %>

    const int* starts_q, const int* starts_k, const unsigned long long* live,<% if listed %> const int* lists,<% if fed %> const unsigned* bits,<% endif %><% endif %>
